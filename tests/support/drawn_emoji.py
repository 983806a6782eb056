"""A folder of emoji as ``examples/vendor_emoji.py`` makes it, with discs of plain colours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["COLOURS", "draw_emoji"]

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
