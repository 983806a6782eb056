"""Baselines: content of an input where a part of it is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["BASELINES", "baseline_of", "blurred"]

BASELINES = ("color", "mean", "blur")


def baseline_of(
    baseline: str | float | NDArray[Any] | Callable[[NDArray[Any]], NDArray[Any]],
    pixels: NDArray[Any],
    spatial: Sequence[int],
    *,
    fill: Sequence[float] = (0.0,),
    window: Sequence[int] | None = None,
    argument: str = "baseline",
) -> NDArray[Any]:
    """Return the content that replaces parts of an input, in the input's shape.

    Parameters
    ----------
    baseline : str, float, array or callable
        ``"color"``, `fill` everywhere; ``"mean"``, the mean over the spatial axes, by channel; ``"blur"``, each element
        the mean of the `window` around it; a number; an array that broadcasts to the input's shape; or a function from
        the input to such an array.
    pixels : array
        Input as the network reads it, without the axis of records.
    spatial : sequence of int
        Axes that are not channels.
    fill : sequence of float
        Value of ``"color"`` by channel. Default 0.
    window : sequence of int, optional
        Extents of the blur along `spatial`. Default: a quarter of the input's.
    argument : str
        Name of the argument in error messages.

    Returns
    -------
    array
        Content in the input's shape and type.

    Raises
    ------
    InvalidArgumentError
        The name is unknown, or the array has another shape or elements that are not finite.

    Examples
    --------
    >>> image = np.array([[[1.0, 3.0], [5.0, 7.0]]])
    >>> baseline_of("mean", image, (1, 2)).tolist()
    [[[4.0, 4.0], [4.0, 4.0]]]
    >>> baseline_of(lambda pixels: pixels[:, ::-1], image, (1, 2)).tolist()
    [[[5.0, 7.0], [1.0, 3.0]]]
    """
    axes = tuple(spatial)
    if isinstance(baseline, str):
        if baseline not in BASELINES:
            raise InvalidArgumentError(
                f"{argument} must be one of {', '.join(BASELINES)}, an array of shape {pixels.shape} or a function "
                f"that returns one, got {baseline!r}{nearest(baseline, BASELINES)}"
            )
        if baseline == "mean":
            content = pixels.mean(axis=axes, keepdims=True)
        elif baseline == "blur":
            content = blurred(pixels, axes, window or [max(pixels.shape[axis] // 4, 1) for axis in axes])
        else:
            content = (
                np.expand_dims(np.asarray(fill, pixels.dtype), axes) if pixels.ndim > len(axes) else np.float64(fill[0])
            )
    else:
        content = baseline(pixels.copy()) if callable(baseline) else baseline
    array = np.asarray(content)
    if not (np.issubdtype(array.dtype, np.number) and np.isfinite(array).all()):
        raise InvalidArgumentError(f"{argument} must be finite numbers, got an array of {array.dtype}")
    try:
        return np.broadcast_to(array, pixels.shape).astype(pixels.dtype)
    except ValueError:
        raise InvalidArgumentError(
            f"{argument} must have the input's shape {pixels.shape} as the network reads it, got {array.shape}"
        ) from None


def blurred(pixels: NDArray[Any], spatial: Sequence[int], window: Sequence[int]) -> NDArray[np.float64]:
    """Replace each element by the mean of the window around it; windows end at the border.

    Parameters
    ----------
    pixels : array
        Input without the axis of records.
    spatial : sequence of int
        Axes of the window.
    window : sequence of int
        Extents along these axes; an even one counts as one less, so that both sides are equal.
    """
    result = pixels.astype(np.float64)
    for axis, extent in zip(spatial, window, strict=True):
        around, length = (extent - 1 + extent % 2) // 2, pixels.shape[axis]
        sums = np.concatenate([np.zeros_like(result.take([0], axis)), result.cumsum(axis)], axis)
        first = np.maximum(np.arange(length) - around, 0)
        last = np.minimum(np.arange(length) + around + 1, length)
        counts = np.expand_dims(last - first, tuple(other for other in range(pixels.ndim) if other != axis))
        result = (sums.take(last, axis) - sums.take(first, axis)) / counts
    return result
