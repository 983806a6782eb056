"""How an image becomes a network's input: a value that travels with the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Preprocessing"]


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Resize, centre crop, scale and normalise, in that order.

    The arithmetic is ``(pixel * scale - mean) / std``, channel by channel, on ``float32`` planes in ``channels`` order.

    Parameters
    ----------
    crop : int
        Height and width of the network's input, in pixels.
    resize : int or None
        The shorter side is first resized to this many pixels, the aspect ratio kept; ``None`` resizes straight to
        ``crop x crop``, the aspect ratio lost.
    mean, std : tuple of 3 float
        In units of the scaled pixel, in ``channels`` order.
    scale : float
        Factor applied to the 8-bit pixel value.
    channels : {"RGB", "BGR"}
        Order of the planes.

    Examples
    --------
    >>> Preprocessing(crop=224, resize=256).with_size(299).resize
    342
    """

    crop: int
    resize: int | None = None
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    scale: float = 1 / 255
    channels: Literal["RGB", "BGR"] = "RGB"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one preprocessed image: ``(3, crop, crop)``."""
        return (3, self.crop, self.crop)

    def with_size(self, crop: int) -> Preprocessing:
        """The same for another input size; ``resize`` keeps its proportion to ``crop``."""
        resize = None if self.resize is None else round(self.resize * crop / self.crop)
        return replace(self, crop=crop, resize=resize)
