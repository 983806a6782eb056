"""Emoji as ``examples/vendor_emoji.py`` fetches them, but discs of plain colours, and runs of examples on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw
from places import EXAMPLES, ROOT
from real_inputs import mobilenet_v2_weights

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["COLOURS", "draw_emoji", "run_on_emoji"]

COLOURS = {"dog": "white", "car": "red", "tree": "green", "boat": "blue", "sun": "yellow", "coal": "black"}


def draw_emoji(cache: Path) -> None:
    """Write the folder into a cache; nothing is fetched then."""
    folder, rows = cache / "emoji-16.0.0", []
    for vendor in ("apple", "facebook", "google", "twitter"):
        (folder / vendor).mkdir(parents=True)
        for name, colour in COLOURS.items():
            picture = Image.new("RGBA", (48, 48))
            ImageDraw.Draw(picture).ellipse((2, 2, 46, 46), colour)
            picture.save(folder / vendor / f"{name}.png")
    for name in COLOURS:
        row = {"short_name": name, "image": f"{name}.png", "category": "Objects", "subcategory": "tool"}
        row["short_names"] = [name, "red_car"] if name == "car" else [name]
        rows.append(row | {f"has_img_{vendor}": True for vendor in ("apple", "facebook", "google", "twitter")})
    (folder / "emoji.json").write_text(json.dumps(rows), encoding="utf-8")


def run_on_emoji(example: str, folder: Path, *arguments: str) -> str:
    """Draw emoji in a folder, run an example on them, check that it writes a picture, and return what it prints."""
    mobilenet_v2_weights()  # skips where the package is not installed
    draw_emoji(folder)
    out = folder / "out.png"
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments, "--out", str(out)],
        env=os.environ | {"CEREBRO_SPARK_CACHE": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert out.read_bytes().startswith(b"\x89PNG")
    return done.stdout
