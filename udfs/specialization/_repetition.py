"""Frames that repeat an earlier one, which no model has to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.images import ImageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.video import DifferenceDetector, Thumbnail

__all__ = ["BEFORE", "MOST_REPETITIONS", "find_references"]

BEFORE = -1
"""Place of a reference of an earlier batch."""

MOST_REPETITIONS = 32
"""Frames in a row that repeat a reference, at most: a scene that changes slowly is answered again after that."""


def find_references(
    detector: DifferenceDetector, frames: Sequence[Any], reference: Thumbnail | None, repetitions: int = 0
) -> tuple[list[int | None], Thumbnail | None, int]:
    """Return, for each frame in order, the place of the frame that it repeats; ``None`` if a model must answer it.

    Parameters
    ----------
    detector : DifferenceDetector
        Threshold and thumbnails.
    frames : sequence
        Values of the column of frames. One that cannot be read repeats no other, and no other repeats it.
    reference : array of float32, optional
        Thumbnail of the last frame of an earlier batch that repeats no other.
    repetitions : int
        Frames that have repeated it.

    Returns
    -------
    list, array of float32 or None, and int
        Places, :data:`BEFORE` for the earlier reference; the reference for the next batch, and its repetitions.
    """
    places: list[int | None] = []
    place = BEFORE
    for row, frame in enumerate(frames):
        try:
            result = detector.detect(frame, reference if repetitions < MOST_REPETITIONS else None)
        except ImageError:
            places.append(None)
            reference, repetitions = None, 0
            continue
        reference = result.reference
        if not result.is_repetition:
            place = row
        repetitions = repetitions + 1 if result.is_repetition else 0
        places.append(place if result.is_repetition else None)
    return places, reference, repetitions
