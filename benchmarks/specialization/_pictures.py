"""Labelled pictures with several hundred classes: emoji of four vendors, or photographs, in seeded views."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import demo_data  # a program of the examples, not a package
import numpy as np
import vendor_emoji
from PIL import Image

from benchmarks.specialization._views import draw_view, encode, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Pictures", "cache_folder", "draw_pictures", "emoji_pictures", "stamp_pictures"]

_HELD_OUT = "apple"
_SIDE = 96


@dataclass(frozen=True)
class Pictures:
    """Pictures with their classes.

    Parameters
    ----------
    names : tuple of str
        Names of the classes, by number.
    jpegs : tuple of bytes
        Encoded pictures.
    labels : array of shape (pictures,)
        Number of each picture's class.
    is_test : array of shape (pictures,)
        Whether a picture is held out: models are trained on the others, and streams show these.
    sources : tuple of PIL.Image.Image
        RGBA picture of each class that the held-out pictures are views of.
    """

    names: tuple[str, ...]
    jpegs: tuple[bytes, ...]
    labels: NDArray[np.int64]
    is_test: NDArray[np.bool_]
    sources: tuple[Image.Image, ...]

    def __len__(self) -> int:
        return len(self.jpegs)

    @property
    def digest(self) -> str:
        """Hash of the pictures and their labels, for files of a cache."""
        state = hashlib.sha256(self.labels.tobytes() + self.is_test.tobytes())
        for jpeg in self.jpegs:
            state.update(jpeg)
        return state.hexdigest()[:16]

    def of_class(self, label: int) -> NDArray[np.int64]:
        """Return the indices of the held-out pictures of a class."""
        return np.flatnonzero(self.is_test & (self.labels == label))


def cache_folder() -> Path:
    """Return the folder of features and packages: ``$CEREBRO_SPARK_CACHE``, or ``.cache`` in the repository."""
    return Path(demo_data.cache_folder(None))


def emoji_pictures(classes: int = 300, train: int = 6, test: int = 3, *, seed: int = 0) -> Pictures:
    """Draw views of emoji: those to train on by Facebook, Google and Twitter, those held out by Apple.

    Parameters
    ----------
    classes : int
        Number of emoji; fewer are a part of more with the same seed.
    train, test : int
        Views per class to train on and held out. The first views are the same for any number.
    seed : int
        Seed of the classes and views.

    Raises
    ------
    demo_data.DataError
        The pictures cannot be fetched.
    """
    folder = vendor_emoji.fetch(cache_folder())
    files = vendor_emoji.classes(folder)
    names = np.random.default_rng([seed, 0]).permutation(list(files))[:classes].tolist()
    vendors = [vendor for vendor in vendor_emoji.VENDORS if vendor != _HELD_OUT]
    sources = [[_rgba(folder / vendor / files[name]) for vendor in (*vendors, _HELD_OUT)] for name in names]
    return draw_pictures(names, [each[:-1] for each in sources], [each[-1] for each in sources], train, test, seed)


def stamp_pictures(data: Path, train: int = 6, test: int = 3, *, seed: int = 0) -> Pictures:
    """Draw views of the Tux Paint photographs, each of which is a class.

    Parameters
    ----------
    data : Path
        Folder that ``examples/stamps.py`` wrote.
    train, test : int
        Views per photograph to train on and held out.
    seed : int
        Seed of the views.
    """
    with (data / "table.csv").open(encoding="utf-8", newline="") as file:
        names = [row["id"] for row in csv.DictReader(file)]
    photographs = [_rgba(data / "images" / f"{name}.png", 2 * _SIDE) for name in names]
    return draw_pictures(names, [[each] for each in photographs], photographs, train, test, seed)


def draw_pictures(
    names: Sequence[str],
    train_sources: Sequence[Sequence[Image.Image]],
    test_sources: Sequence[Image.Image],
    train: int,
    test: int,
    seed: int = 0,
    side: int = _SIDE,
) -> Pictures:
    """Draw views of RGBA pictures: per class, those to train on from several of them in turn, those held out from one.

    The view of a picture depends on the seed, the class and its number alone.
    """
    jpegs, labels, is_test = [], [], []
    for label, (sources, held_out) in enumerate(zip(train_sources, test_sources, strict=True)):
        views: list[tuple[Any, bool]] = [(sources[number % len(sources)], False) for number in range(train)]
        views += [(held_out, True)] * test
        for number, (source, is_held_out) in enumerate(views):
            place = number - train if is_held_out else number
            draw = np.random.default_rng([seed, 1 + is_held_out, label, place])
            jpegs.append(encode(render(source, draw_view(draw), (side, side), draw)))
            labels.append(label)
            is_test.append(is_held_out)
    return Pictures(
        tuple(names), tuple(jpegs), np.array(labels, np.int64), np.array(is_test, bool), tuple(test_sources)
    )


def _rgba(path: Path, longest: int | None = None) -> Image.Image:
    with Image.open(path) as image:
        picture = image.convert("RGBA")
    if longest is not None:
        picture.thumbnail((longest, longest))
    return picture
