"""JPEG files in memory, made from the real photographs that installed packages carry."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

__all__ = ["jpegs", "labelled"]

# Found by path: scikit-image's and foolbox's own modules would cost seconds to import.
_SOURCES = {
    "foolbox": ["data/imagenet_*.jpg"],
    "sklearn": ["datasets/images/*.jpg"],
    "skimage": [f"data/{name}" for name in ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")],
}

# ImageNet's commonest size.
_SIZE = (500, 375)


def jpegs(count: int, seed: int = 0) -> list[bytes]:
    """Random crops of photographs, some mirrored, some brighter, as JPEG of quality 90 and 500 x 375 pixels.

    Parameters
    ----------
    count : int
    seed : int
        Of the crops; equal seeds give equal bytes on one version of Pillow.

    Raises
    ------
    FileNotFoundError
        No package with photographs is installed; the message says how to install one.
    """
    photographs = [Image.open(path).convert("RGB") for path in _paths()]
    draw = np.random.default_rng(seed)
    return [_encode(_vary(photographs[number % len(photographs)], draw)) for number in range(count)]


def labelled(count: int, seed: int = 0) -> list[tuple[str, bytes]]:
    """Like :func:`jpegs`, with their labels: ``"animal"`` or ``"thing"``, or the photograph's name.

    Parameters
    ----------
    count, seed : int

    Raises
    ------
    FileNotFoundError
        As :func:`jpegs`.
    """
    paths = _paths()
    paths = [path for path in paths if path.name.startswith("imagenet_")] or paths
    draw = np.random.default_rng(seed)
    chosen = [paths[number % len(paths)] for number in range(count)]
    return [(_label(path), _encode(_vary(Image.open(path).convert("RGB"), draw))) for path in chosen]


def _label(path: Path) -> str:
    if not path.name.startswith("imagenet_"):
        return path.stem
    # The name ends with ImageNet's class, and its animals come first.
    return "animal" if int(path.stem.rpartition("_")[2]) < 398 else "thing"


def _paths() -> list[Path]:
    paths: list[Path] = []
    for package, patterns in _SOURCES.items():
        spec = importlib.util.find_spec(package)
        if spec and spec.submodule_search_locations:
            folder = Path(spec.submodule_search_locations[0])
            paths += [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    if not paths:
        raise FileNotFoundError('no photographs: pip install scikit-learn, or pip install --no-deps "foolbox==3.3.4"')
    return paths


def _vary(photograph: Image.Image, draw: np.random.Generator) -> Image.Image:
    # The crop keeps the aspect ratio of 4:3, so that nothing is stretched.
    width = min(photograph.width, photograph.height * _SIZE[0] / _SIZE[1]) * draw.uniform(0.6, 1.0)
    height = width * _SIZE[1] / _SIZE[0]
    left, top = draw.uniform(0, photograph.width - width), draw.uniform(0, photograph.height - height)
    picture = photograph.resize(_SIZE, Image.Resampling.BICUBIC, (left, top, left + width, top + height))
    if draw.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return ImageEnhance.Brightness(picture).enhance(draw.uniform(0.8, 1.2))


def _encode(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()
