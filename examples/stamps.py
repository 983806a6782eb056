"""Prepare the demo's data: photographs joined with real structured columns, from Debian's Tux Paint stamps.

``python examples/stamps.py --out DIR`` makes ``DIR/images/<id>.png`` and ``DIR/table.csv`` from the Debian package
``tuxpaint-stamps-default`` (161 MB, GPL-2). The package is fetched and unpacked without root, once, into a cache folder
(``--cache``, else ``$CEREBRO_SPARK_CACHE``, else ``.cache`` under the repository); none of it is part of this project.
Where that is not possible, the drawings of ``punks.py`` take its place, and the output says so.

Which stamps. The package has 796 PNG files in 16 categories. A row is a PNG that

- lies in one of the five categories ``animals``, ``food``, ``household``, ``plants`` or ``vehicles``,
- has its own caption, a ``.txt`` of the same name (the ``_mirror.png`` variants have none: they are second views), and
- has no folder ``cartoon`` in its path: that is where the package keeps its drawings.

In version 2022.06.04-1 these are 265: animals 128, food 50, household 31, plants 39, vehicles 17.

Which columns. ``label`` is the category's folder. The features come from the files beside the PNG and from the PNG,
none from a folder's name: length and words of the English caption, the number of translations and of spoken
descriptions, whether there is a sound effect, four flags of the ``.dat``, width, height and the share of pixels that
are not fully transparent. ``caption`` is text for people and for a text encoder. The images are copies, byte for byte,
of the package's files: RGBA for the most part, a few palette and grey with alpha.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

import demo_data
from demo_data import DataError
from PIL import Image

PACKAGE = "tuxpaint-stamps-default"
STAMPS = Path("usr", "share", "tuxpaint", "stamps")
"""Where the stamps lie inside the package."""

CATEGORIES = ("animals", "food", "household", "plants", "vehicles")
FLAGS = ("nomirror", "noflip", "tintable", "tinter")
"""Words of a ``.dat`` that become 0/1 columns; ``colorable``, ``scale`` and others are too rare to learn from."""

COLUMNS = (
    *demo_data.LEADING,
    "caption_chars",
    "caption_words",
    "translations",
    "spoken_descriptions",
    "has_sound",
    *FLAGS,
    "width",
    "height",
    "opaque_share",
)


def fetch(cache: Path) -> Path:
    """Get the unpacked package: from the cache, or fetched into it.

    Parameters
    ----------
    cache : Path
        The cache folder.

    Returns
    -------
    Path
        The folder of the stamps' categories.
    """
    return demo_data.debian_package(PACKAGE, STAMPS, cache)


def is_photograph(png: Path, stamps: Path) -> bool:
    """Say whether a PNG is one of the data set's rows.

    Parameters
    ----------
    png : Path
        The file.
    stamps : Path
        The folder of the stamps' categories.

    Returns
    -------
    bool
        True for a captioned stamp outside the folders named ``cartoon``.
    """
    return "cartoon" not in png.relative_to(stamps).parts[:-1] and png.with_suffix(".txt").is_file()


def row_of(png: Path, stamps: Path) -> dict[str, object]:
    """Read one stamp's row.

    Parameters
    ----------
    png : Path
        The stamp's image.
    stamps : Path
        The folder of the stamps' categories.

    Returns
    -------
    dict of str to object
        A value for each of `COLUMNS`.
    """
    relative = png.relative_to(stamps)
    # utf-8-sig and replace: a caption is text for people, one odd byte in it is no reason to lose the stamp
    lines = png.with_suffix(".txt").read_text(encoding="utf-8-sig", errors="replace").splitlines() or [""]
    caption = lines[0].strip()
    dat = png.with_suffix(".dat")
    words = re.findall(r"[a-z]+", dat.read_text(encoding="utf-8", errors="replace").lower()) if dat.is_file() else []
    # names are compared, not globbed: a stamp's name may hold any character
    spoken = [entry for entry in png.parent.iterdir() if entry.name.startswith(f"{png.stem}_desc")]
    with Image.open(png) as image:
        width, height = image.size
        transparent = image.convert("RGBA").getchannel("A").histogram()[0]
    return {
        "id": re.sub(r"[^a-z0-9]+", "-", relative.with_suffix("").as_posix().lower()).strip("-"),
        "label": relative.parts[0],
        "caption": caption,
        "caption_chars": len(caption),
        "caption_words": len(caption.split()),
        "translations": sum(1 for line in lines[1:] if re.match(r"[A-Za-z_@]+\.utf8=.*\S", line)),
        "spoken_descriptions": sum(1 for entry in spoken if entry.suffix == ".ogg"),
        "has_sound": int(any(png.with_suffix(suffix).is_file() for suffix in (".ogg", ".wav"))),
        **{flag: int(flag in words) for flag in FLAGS},
        "width": width,
        "height": height,
        "opaque_share": round(1 - transparent / (width * height), 6),
    }


def build(stamps: Path, out: Path) -> list[str]:
    """Make the output folder from the unpacked package.

    Parameters
    ----------
    stamps : Path
        The folder of the stamps' categories.
    out : Path
        The output folder, absent or empty.

    Returns
    -------
    list of str
        Each row's label.

    Raises
    ------
    DataError
        If there is no stamp, or two of them would have the same id.
    """
    photographs = [png for name in CATEGORIES for png in (stamps / name).rglob("*.png") if is_photograph(png, stamps)]
    by_id: dict[str, tuple[dict[str, object], Path]] = {}
    for png in photographs:
        try:
            row = row_of(png, stamps)
        except OSError as error:
            raise DataError(
                f"{png} cannot be read ({error}): remove the package from the cache and run again"
            ) from error
        name = str(row["id"])
        if name in by_id:
            raise DataError(f"{png.name} and {by_id[name][1].name} have the same id {name}")
        by_id[name] = row, png
    if not by_id:
        raise DataError(f"{stamps} has no captioned PNG in {', '.join(CATEGORIES)}")
    rows = [by_id[name][0] for name in sorted(by_id)]  # a folder's own order differs from disk to disk
    demo_data.publish(out, COLUMNS, rows, lambda name, to: shutil.copyfile(by_id[name][1], to))
    return [str(row["label"]) for row in rows]


def prepare(out: Path, cache: Path) -> str:
    """Make the data set, or the drawings where the photographs cannot be had.

    Parameters
    ----------
    out : Path
        The output folder.
    cache : Path
        The cache folder.

    Returns
    -------
    str
        The summary line.

    Raises
    ------
    DataError
        If the output folder holds something else, or neither data set can be made.
    """
    import punks  # the other way round is a command of its own and must not need this module

    earlier = demo_data.prepared(out)
    if earlier is not None:
        columns, labels = earlier
        if columns == list(COLUMNS):
            return demo_data.summary(labels, "photographs", out)
        demo_data.note(f"{out} was prepared from the fallback; remove it to try for the photographs again.")
        return punks.prepare(out, cache)
    try:
        if not (cache / PACKAGE).is_dir():
            demo_data.note(f"Fetching the Debian package {PACKAGE} (161 MB) into {cache}, once ...")
        stamps = fetch(cache)
    except DataError as error:
        demo_data.note(f"The stamps' photographs cannot be had: {error}")
        demo_data.note(f"Falling back to {punks.REQUIREMENT}: these are drawings (24x24 pixel art), not photographs.")
        try:
            return punks.prepare(out, cache)
        except DataError as second:
            raise DataError(f"the fallback failed too: {second}") from error
    return demo_data.summary(build(stamps, out), "photographs", out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        The arguments, by default the process's own.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(description="Prepare the demo's photographs and their table.")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make: images/<id>.png and table.csv")
    parser.add_argument("--cache", type=Path, help="where packages are kept (default: $CEREBRO_SPARK_CACHE, .cache)")
    given = parser.parse_args(arguments)
    try:
        print(prepare(given.out.expanduser().absolute(), demo_data.cache_folder(given.cache)))
    except DataError as error:
        demo_data.note(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
