"""Difference detector: errors of blocks against loops, references of a sequence."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from PIL import Image

from optimizer.errors import InvalidArgumentError
from udfs.video import DifferenceDetector, block_error, thumbnail


def struct(pixels: np.ndarray[Any, Any]) -> dict[str, Any]:
    height, width, channels = pixels.shape
    return {"height": height, "width": width, "nChannels": channels, "mode": 16, "data": pixels.tobytes()}


def test_a_thumbnail_has_the_means_of_its_cells() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (48, 96, 3)).astype(np.uint8)
    means = pixels.reshape(6, 8, 8, 12, 3).mean(axis=(1, 3))
    assert np.abs(thumbnail(pixels, (8, 6)) - means).max() <= 1.01  # Pillow rounds twice
    # A struct is BGR.
    assert np.array_equal(thumbnail(struct(pixels), (8, 6))[:, :, ::-1], thumbnail(pixels, (8, 6)))


def test_a_grey_frame_has_a_channel() -> None:
    assert thumbnail(np.full((30, 40), 7, np.uint8)).tolist() == np.full((24, 32, 1), 7.0).tolist()


@pytest.mark.parametrize(("shape", "blocks"), [((24, 32, 3), (4, 4)), ((7, 10, 1), (3, 4)), ((5, 5, 3), (1, 5))])
def test_the_error_is_that_of_the_worst_block(shape: tuple[int, int, int], blocks: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    first, second = rng.uniform(0, 255, (2, *shape)).astype(np.float32)
    edges = [
        [count * length // parts for count in range(parts + 1)] for parts, length in zip(blocks, shape, strict=False)
    ]
    errors = [
        ((first[top:bottom, left:right] - second[top:bottom, left:right]) ** 2).mean()
        for top, bottom in pairwise(edges[0])
        for left, right in pairwise(edges[1])
    ]
    assert len(errors) == blocks[0] * blocks[1]
    assert block_error(first, second, blocks) == pytest.approx(max(errors), rel=1e-5)


def test_slow_changes_add_up() -> None:
    """Each frame is within the threshold of the frame before, but not of the reference."""
    detector, reference = DifferenceDetector(threshold=4.5), None
    repeats, errors = [], []
    for grey in (100, 102, 104, 106, 106, 90):
        frame = np.array(Image.new("RGB", (64, 48), (grey, grey, grey)))
        is_repetition, error, reference = detector.detect(frame, pickle.loads(pickle.dumps(reference)))
        repeats.append(is_repetition)
        errors.append(error)
    assert repeats == [False, True, False, True, True, False]
    assert errors == [float("inf"), 4, 16, 4, 4, 196]


def test_a_small_object_is_detected() -> None:
    frame = np.full((240, 320, 3), 90, np.uint8)
    moved = frame.copy()
    moved[100:130, 200:220] = 200
    detector = DifferenceDetector(threshold=150)
    _, _, reference = detector.detect(frame)
    assert not detector.detect(moved, reference).is_repetition
    assert DifferenceDetector(threshold=150, blocks=(1, 1)).detect(moved, reference).is_repetition


def test_another_shape_is_no_repetition() -> None:
    _, _, reference = DifferenceDetector(1.0).detect(np.zeros((48, 64), np.uint8))
    assert not DifferenceDetector(1.0).detect(np.zeros((48, 64, 3), np.uint8), reference).is_repetition


@pytest.mark.parametrize(
    "options", [{"threshold": -1}, {"threshold": float("nan")}, {"threshold": 1, "blocks": (25, 4)}]
)
def test_wrong_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="must be"):
        DifferenceDetector(**options)


def test_floats_are_no_frame() -> None:
    with pytest.raises(InvalidArgumentError, match="frame must be an array of uint8"):
        thumbnail(np.zeros((4, 4)))
    with pytest.raises(InvalidArgumentError, match="second must have the shape"):
        block_error(np.zeros((2, 2, 1), np.float32), np.zeros((2, 2, 3), np.float32))
