"""Baselines: what an input holds where a part of it is taken away."""

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
) -> NDArray[Any]:
    """Make what replaces parts of an input, in the input's shape.

    Parameters
    ----------
    baseline : str, float, array or callable
        ``"color"``, `fill` everywhere; ``"mean"``, the mean over the spatial axes, by channel; ``"blur"``, each element
        the mean of the `window` around it; a number; an array that has the input's shape, or broadcasts to it; or a
        function from the input to such an array.
    pixels : array
        The input as the network reads it, without the axis of records.
    spatial : sequence of int
        Axes that are not channels.
    fill : sequence of float
        By channel. Default 0.
    window : sequence of int, optional
        Extents of the blur, along `spatial`; by default a quarter of the input's.

    Returns
    -------
    array of the input's shape and type

    Raises
    ------
    InvalidArgumentError
        An unknown name, an array of another shape, or one that is not finite numbers.

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
                f"baseline={baseline!r}{nearest(baseline, BASELINES)}; one of {', '.join(BASELINES)}, an array of "
                f"shape {pixels.shape}, or a function that makes one"
            )
        if baseline == "mean":
            given = pixels.mean(axis=axes, keepdims=True)
        elif baseline == "blur":
            given = blurred(pixels, axes, window or [max(pixels.shape[axis] // 4, 1) for axis in axes])
        else:
            given = (
                np.expand_dims(np.asarray(fill, pixels.dtype), axes) if pixels.ndim > len(axes) else np.float64(fill[0])
            )
    else:
        given = baseline(pixels.copy()) if callable(baseline) else baseline
    array = np.asarray(given)
    if not (np.issubdtype(array.dtype, np.number) and np.isfinite(array).all()):
        raise InvalidArgumentError(f"a baseline of {array.dtype}: finite numbers alone can be given to the network")
    try:
        return np.broadcast_to(array, pixels.shape).astype(pixels.dtype)
    except ValueError:
        raise InvalidArgumentError(
            f"a baseline of shape {array.shape} for an input of shape {pixels.shape}: give the input's shape, as the "
            "network reads it"
        ) from None


def blurred(pixels: NDArray[Any], spatial: Sequence[int], window: Sequence[int]) -> NDArray[np.float64]:
    """Make each element the mean of a window around it; at the border, of what there is of it.

    Parameters
    ----------
    pixels : array
    spatial : sequence of int
        Axes of the window.
    window : sequence of int
        Extents along them; an even one is one less, so that as much lies on both sides.
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
