"""Detection of frames that repeat an earlier one, by the error of blocks of a thumbnail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from optimizer.errors import InvalidArgumentError
from udfs.images import open_rgb

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Difference", "DifferenceDetector", "Thumbnail", "block_error", "thumbnail"]

Thumbnail = np.ndarray[Any, np.dtype[np.float32]]
"""Averages over the cells of a grid, of shape (height, width, channels)."""


def thumbnail(frame: Mapping[str, Any] | np.ndarray[Any, Any], size: tuple[int, int] = (32, 24)) -> Thumbnail:
    """Average a frame over the cells of a small grid.

    Parameters
    ----------
    frame : mapping or array of uint8
        Spark's image struct, or pixels of shape ``(height, width)`` or ``(height, width, 3)``.
    size : tuple of int
        Width and height of the thumbnail. Default 32 x 24.

    Returns
    -------
    array of float32
        Shape ``(height, width, channels)``, values from 0 to 255; three channels for an image struct.

    Raises
    ------
    InvalidArgumentError
        An array is not of uint8, or has other than 2 or 3 dimensions.
    ImageError
        An image struct has no picture (:func:`udfs.images.open_rgb`).

    Examples
    --------
    >>> thumbnail(np.full((48, 64), 200, np.uint8), (4, 3)).shape
    (3, 4, 1)
    """
    if isinstance(frame, np.ndarray):
        if frame.dtype != np.uint8 or frame.ndim not in (2, 3):
            raise InvalidArgumentError(
                f"frame must be an array of uint8 with 2 or 3 dimensions, got {frame.dtype} of shape {frame.shape}."
            )
        picture = Image.fromarray(frame)
    else:
        picture = open_rgb(frame)
    pixels = np.asarray(picture.resize(size, Image.Resampling.BOX), np.float32)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def block_error(first: Thumbnail, second: Thumbnail, blocks: tuple[int, int] = (4, 4)) -> float:
    """Return the largest mean squared error of a block.

    A small object that moves changes few blocks, so the largest error of a block shows it where the error of the whole
    picture is near that of noise (NoScope, section 5.1).

    Parameters
    ----------
    first, second : array of float32 of shape (height, width, channels)
        Thumbnails of the same shape.
    blocks : tuple of int
        Blocks along the height and along the width. Default 4 x 4.

    Returns
    -------
    float
        Squared grey levels, from 0 to 65025.

    Raises
    ------
    InvalidArgumentError
        The shapes differ.

    References
    ----------
    Kang et al., NoScope: Optimizing Neural Network Queries over Video at Scale, VLDB 2017.

    Examples
    --------
    >>> image = np.zeros((24, 32, 1), np.float32)
    >>> changed = image.copy()
    >>> changed[:6, :8] = 10  # one block of 16
    >>> block_error(image, changed), block_error(image, changed, (1, 1))
    (100.0, 6.25)
    """
    if first.shape != second.shape:
        raise InvalidArgumentError(f"second must have the shape of first, {first.shape}, got {second.shape}.")
    squares = np.square(first - second).mean(axis=2)
    edges = [np.arange(count) * length // count for count, length in zip(blocks, squares.shape, strict=True)]
    sums = np.add.reduceat(np.add.reduceat(squares, edges[0], axis=0), edges[1], axis=1)
    lengths = [np.diff(edge, append=length) for edge, length in zip(edges, squares.shape, strict=True)]
    return float((sums / np.outer(*lengths)).max())


class Difference(NamedTuple):
    """Result for one frame.

    Attributes
    ----------
    is_repetition : bool
        Whether the frame repeats the reference.
    error : float
        Block error relative to the reference; infinite without a reference of the same shape.
    reference : array of float32
        Reference for the next frame: the state to be stored.
    """

    is_repetition: bool
    error: float
    reference: Thumbnail


@dataclass(frozen=True, slots=True)
class DifferenceDetector:
    """Detector of frames that repeat the last frame that was not a repetition.

    The reference stays the same while frames repeat it, so slow changes add up until they are detected. The detector
    has no state: store the reference between micro-batches.

    Parameters
    ----------
    threshold : float
        Largest block error of a repetition, in squared grey levels; at least 0.
    size : tuple of int
        Width and height of thumbnails.
    blocks : tuple of int
        Blocks along the height and along the width of a thumbnail.

    Raises
    ------
    InvalidArgumentError
        The threshold is negative, or a thumbnail has fewer pixels than blocks.

    Examples
    --------
    >>> detector = DifferenceDetector(threshold=4.0)
    >>> reference = None
    >>> for grey in (100, 101, 103, 104):
    ...     is_repetition, error, reference = detector.detect(np.full((48, 64), grey, np.uint8), reference)
    ...     print(is_repetition, error)
    False inf
    True 1.0
    False 9.0
    True 1.0
    """

    threshold: float
    size: tuple[int, int] = (32, 24)
    blocks: tuple[int, int] = (4, 4)

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise InvalidArgumentError(f"threshold must be at least 0, got {self.threshold!r}.")
        width, height = self.size
        if not (1 <= self.blocks[0] <= height and 1 <= self.blocks[1] <= width):
            raise InvalidArgumentError(
                f"blocks must be from 1 to the height and width of the thumbnail, {(height, width)}, got {self.blocks}."
            )

    def detect(self, frame: Mapping[str, Any] | np.ndarray[Any, Any], reference: Thumbnail | None = None) -> Difference:
        """Compare a frame with the reference.

        Parameters
        ----------
        frame : mapping or array of uint8
            Spark's image struct, or pixels.
        reference : array of float32, optional
            ``reference`` of the previous result; ``None`` for the first frame. Without a reference of the same shape,
            a frame is never a repetition.

        Raises
        ------
        InvalidArgumentError, ImageError
            The frame is no picture (:func:`thumbnail`).
        """
        current = thumbnail(frame, self.size)
        if reference is None or reference.shape != current.shape:
            return Difference(is_repetition=False, error=float("inf"), reference=current)
        error = block_error(reference, current, self.blocks)
        is_repetition = error <= self.threshold
        return Difference(is_repetition, error, reference if is_repetition else current)
