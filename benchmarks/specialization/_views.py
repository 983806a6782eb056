"""Seeded views of a picture with transparency: rotated, scaled, moved, on a coloured background, with noise."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draw_view", "drift", "encode", "render"]

# Lowest and highest value of each setting of a view. Lengths are shares of the frame's shorter side, angles degrees,
# colours those of opposite corners of the background.
_RANGES = {
    "size": (0.5, 0.8),
    "angle": (-25.0, 25.0),
    "x": (-0.1, 0.1),
    "y": (-0.1, 0.1),
    "brightness": (0.75, 1.15),
    "contrast": (0.7, 1.2),
    "saturation": (0.5, 1.3),
    "noise": (2.0, 12.0),
    **{f"{corner}_{channel}": (60.0, 255.0) for corner in ("first", "last") for channel in "rgb"},
}
_LOW, _HIGH = np.array(list(_RANGES.values())).T
_NOISE = list(_RANGES).index("noise")
_DRIFT = 0.12
_PERIODS = (6.0, 20.0)


def draw_view(draw: np.random.Generator) -> NDArray[np.float64]:
    """Draw the numbers of a view, in the order of `_RANGES`."""
    return draw.uniform(_LOW, _HIGH)


def drift(view: NDArray[np.float64], seconds: float, seed: int) -> NDArray[np.float64]:
    """Return a view as it is some seconds later: each number swings slowly around its first value.

    Parameters
    ----------
    view : array of shape (settings,)
        View at 0 seconds.
    seconds : float
        Time since then.
    seed : int
        Seed of the periods, of 6 to 20 seconds, and of the directions.
    """
    draw = np.random.default_rng([seed, 7])
    periods, phases = draw.uniform(*_PERIODS, len(view)), draw.uniform(0, 2 * math.pi, len(view))
    moved = np.sin(2 * math.pi * seconds / periods + phases) - np.sin(phases)
    moved[_NOISE] = 0
    return np.clip(view + _DRIFT * (_HIGH - _LOW) * moved, _LOW, _HIGH)


def render(
    picture: Image.Image, view: NDArray[np.float64], frame: tuple[int, int], draw: np.random.Generator
) -> NDArray[np.uint8]:
    """Draw a picture as a view shows it.

    Parameters
    ----------
    picture : PIL.Image.Image
        RGBA picture.
    view : array of shape (settings,)
        Numbers from :func:`draw_view` or :func:`drift`.
    frame : tuple of int
        Width and height of the result, in pixels.
    draw : numpy.random.Generator
        Generator of the noise.

    Returns
    -------
    array of shape (height, width, 3)
        RGB bytes.
    """
    width, height = frame
    size, angle, x, y, brightness, contrast, saturation, noise = view[:8]
    side, longest = min(frame), max(picture.size)
    shape = [max(round(size * side * length / longest), 1) for length in picture.size]
    turned = picture.resize(shape, Image.Resampling.BICUBIC).rotate(angle, Image.Resampling.BICUBIC, expand=True)
    left = round((width - turned.width) / 2 + x * side)
    top = round((height - turned.height) / 2 + y * side)
    layer = Image.new("RGBA", frame)
    layer.paste(turned, (left, top))
    pixels = np.asarray(layer, np.float32)
    alpha = pixels[:, :, 3:] / 255
    slope = np.linspace(0, 1, width, dtype=np.float32)[None, :, None] / 2
    slope = slope + np.linspace(0, 1, height, dtype=np.float32)[:, None, None] / 2
    first, last = view[8:11].astype(np.float32), view[11:14].astype(np.float32)
    mixed = alpha * pixels[:, :, :3] + (1 - alpha) * (first + slope * (last - first))
    grey = mixed.mean(axis=2, keepdims=True)
    toned = ((grey + saturation * (mixed - grey)) - 128) * contrast + 128 * brightness
    toned += noise * draw.standard_normal(toned.shape, np.float32)
    result: NDArray[np.uint8] = np.clip(toned, 0, 255).astype(np.uint8)
    return result


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """Encode RGB bytes as JPEG."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()
