"""Photographs of scikit-learn: crops and encodings."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image
from sklearn.datasets import load_sample_image

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["crops", "encode", "photograph"]


@lru_cache(maxsize=2)
def photograph(name: str) -> Image.Image:
    """Return scikit-learn's photograph ``"china"`` or ``"flower"``, of 640 x 427 pixels."""
    return Image.fromarray(load_sample_image(f"{name}.jpg"))


def encode(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    """Encode an image."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def crops(count: int, side: int = 96) -> Iterator[tuple[int, int, int, Image.Image]]:
    """Yield crops of both photographs in turn, each at another place: label (1 is the flower), left, top, picture."""
    for number in range(count):
        label = number % 2
        whole = photograph("flower" if label else "china")
        left, top = (number * 37) % (whole.width - side), (number * 53) % (whole.height - side)
        yield label, left, top, whole.crop((left, top, left + side, top + side))
