"""``make pictures`` draws every picture that the documentation shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from places import ROOT

KEPT = {path.name for path in (ROOT / "docs" / "images").iterdir()}


def test_make_draws_every_picture() -> None:
    recipe = subprocess.run(
        ["/usr/bin/make", "--dry-run", "pictures"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # A figure is drawn into another folder and copied under its name.
    drawn = {Path(word).name for word in recipe.split() if word.endswith((".png", ".jpg"))}
    assert drawn >= KEPT


def test_the_documentation_shows_the_pictures_that_are_kept() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for path in documents for name in re.findall(r"\]\([\w/]*images/([\w.]+)\)", path.read_text())}
    assert shown == KEPT
