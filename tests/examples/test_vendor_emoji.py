"""``examples/vendor_emoji.py`` with a program in npm's place: unpacked once, and failures name their cause."""

from __future__ import annotations

import importlib
import io
import json
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest
from places import EXAMPLES

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

FACTS = {"short_name": "dog", "image": "1f436.png", "category": "Animals & Nature", "subcategory": "animal-mammal"}
TABLE = [
    FACTS,
    FACTS | {"short_name": "cat", "image": "1f431.png"},
    FACTS | {"short_name": "clock1", "category": "Travel & Places", "subcategory": "time"},
    FACTS | {"short_name": "grinning", "category": "Smileys & Emotion", "subcategory": "face-smiling"},
    FACTS | {"short_name": "dodo", "has_img_google": False},
]


@pytest.fixture
def emoji(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("vendor_emoji")


def npm(emoji: ModuleType, folder: Path, pictures: str = "package/img/{vendor}/64/") -> None:
    """Write a program that packs a table and two pictures, and counts its calls."""
    rows = [{f"has_img_{vendor}": True for vendor in emoji.VENDORS} | row for row in TABLE]
    for vendor in emoji.VENDORS:
        with tarfile.open(folder / f"emoji-datasource-{vendor}-{emoji.VERSION}.tgz", "w:gz") as package:
            names = [pictures.format(vendor=vendor) + name for name in ("1f436.png", "1f431.png", "sub/x.png")]
            for name in ("package/emoji.json", "package/img/other/64/y.png", *names):
                content = json.dumps(rows).encode() if name.endswith("json") else vendor.encode()
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                package.addfile(entry, io.BytesIO(content))
    program = folder / "npm"
    program.write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        f"name = sys.argv[2].replace('@', '-') + '.tgz'\nshutil.copy('{folder}/' + name, name)\n"
        f"open('{folder}/calls', 'a').write(sys.argv[2] + ' ')\n"
    )
    program.chmod(0o755)


def test_packages_are_fetched_once(emoji: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(emoji, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = emoji.fetch(tmp_path / "cache")
    assert emoji.fetch(tmp_path / "cache") == folder
    assert (tmp_path / "calls").read_text().split() == [f"emoji-datasource-{each}@16.0.0" for each in emoji.VENDORS]
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
    assert files == sorted(
        ["emoji.json", *(f"{vendor}/{name}.png" for vendor in emoji.VENDORS for name in ("1f431", "1f436"))]
    )
    assert (folder / "google" / "1f436.png").read_text() == "google"
    assert list(emoji.classes(folder).items()) == [("cat", "1f431.png"), ("dog", "1f436.png")]


def test_failures_name_their_cause(
    emoji: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert emoji.main(["--cache", str(tmp_path / "cache")]) == 1
    assert "npm is not on PATH" in capsys.readouterr().err
    npm(emoji, tmp_path, "package/img/{vendor}/160/")
    with pytest.raises(emoji.DataError, match=r"has no emoji.json or no folder package/img/apple/64/"):
        emoji.fetch(tmp_path / "cache")
    assert not any(path.is_dir() for path in (tmp_path / "cache").iterdir())
