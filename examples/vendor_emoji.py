"""Fetch pictures with several hundred classes: emoji, each drawn by four vendors, from npm packages.

``python examples/vendor_emoji.py`` fetches the packages ``emoji-datasource-VENDOR`` of Apple, Facebook, Google and
Twitter (version 16.0.0, 330 MB) once into a cache folder (``--cache``, else ``$CEREBRO_SPARK_CACHE``, else ``.cache``
under the repository) and keeps ``emoji.json`` and the pictures of 64 x 64 pixels, 100 MB. The data is MIT; the drawings
are under their vendors' licences. None of it is part of this project. npm's client fetches the packages and runs none
of their code.

A class is an emoji of one of the categories in `CATEGORIES` that all four vendors draw, without the clock faces, which
differ by a hand. In version 16.0.0 these are 818.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from typing import TYPE_CHECKING

import demo_data
from demo_data import DataError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CATEGORIES", "VENDORS", "VERSION", "classes", "fetch"]

VENDORS = ("apple", "facebook", "google", "twitter")
VERSION = "16.0.0"
CATEGORIES = ("Activities", "Animals & Nature", "Food & Drink", "Objects", "Travel & Places")
"""Categories of things. Faces, people, flags and symbols differ in details that photographs do not have."""

_LEFT_OUT = ("time",)


def fetch(cache: Path) -> Path:
    """Fetch the pictures into the cache, once.

    Parameters
    ----------
    cache : Path
        Cache folder.

    Returns
    -------
    Path
        Folder with ``emoji.json`` and a folder of PNG files per vendor.

    Raises
    ------
    DataError
        npm is missing, or a package cannot be fetched or has other contents than expected.
    """

    def fill(part: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise DataError("npm is not on PATH; it comes with Node.js (Debian: apt-get install npm)")
        for vendor in VENDORS:
            demo_data.run([npm, "pack", f"emoji-datasource-{vendor}@{VERSION}"], cwd=part, timeout=1800)
            archive = part / f"emoji-datasource-{vendor}-{VERSION}.tgz"
            _unpack(archive, vendor, part)
            archive.unlink()

    return demo_data.make_once(cache / f"emoji-{VERSION}", fill)


def _unpack(archive: Path, vendor: str, out: Path) -> None:
    """Copy the table and the small pictures out of a package."""
    pictures = f"package/img/{vendor}/64/"
    (out / vendor).mkdir()
    with tarfile.open(archive) as package:
        for member in package:
            name = member.name.removeprefix(pictures)
            is_picture = name != member.name and "/" not in name and name.endswith(".png")
            content = package.extractfile(member) if is_picture or name == "package/emoji.json" else None
            if content is not None:
                (out / vendor / name if is_picture else out / "emoji.json").write_bytes(content.read())
    if not (out / "emoji.json").is_file() or not any((out / vendor).iterdir()):
        raise DataError(f"{archive.name} has no emoji.json or no folder {pictures}")


def classes(folder: Path) -> dict[str, str]:
    """Return the name of each class with the name of its file, sorted by name.

    Parameters
    ----------
    folder : Path
        Folder that :func:`fetch` returned. A vendor's picture is ``folder / vendor / file``.
    """
    table = json.loads((folder / "emoji.json").read_text(encoding="utf-8"))
    return dict(
        sorted(
            (row["short_name"], row["image"])
            for row in table
            if row["category"] in CATEGORIES
            and row["subcategory"] not in _LEFT_OUT
            and all(row[f"has_img_{vendor}"] and (folder / vendor / row["image"]).is_file() for vendor in VENDORS)
        )
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        Arguments, by default those of the process.

    Returns
    -------
    int
        Exit status.
    """

    def describe(folder: Path) -> str:
        return f"{len(classes(folder))} emoji of {len(VENDORS)} vendors: {folder}"

    return demo_data.run_fetch("Fetch emoji of four vendors.", fetch, describe, arguments)


if __name__ == "__main__":
    sys.exit(main())
