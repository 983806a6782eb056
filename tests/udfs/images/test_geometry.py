"""Coordinates of photographs that are not square, compared with what decoding does to their pixels."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from optimizer.errors import InvalidArgumentError
from udfs.images import Preprocessing, decode, picture_geometry

NEUTRAL: dict[str, Any] = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
PREPROCESSINGS = (
    Preprocessing(crop=32, resize=36, **NEUTRAL),
    Preprocessing(crop=32, resize=32, **NEUTRAL),
    Preprocessing(crop=32, resize=None, **NEUTRAL),
    Preprocessing(crop=40, resize=32, **NEUTRAL),  # padded with black
    Preprocessing(crop=32, resize=(37, 41), crop_start="floor", **NEUTRAL),
)


def decoded(pixels: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return decode(file.getvalue(), preprocessing)


@pytest.mark.parametrize("preprocessing", PREPROCESSINGS, ids=lambda each: f"{each.resize}-{each.crop}")
@pytest.mark.parametrize("size", [(96, 160), (150, 64), (80, 80)])
def test_a_white_region_is_white_where_the_geometry_says(size: tuple[int, int], preprocessing: Preprocessing) -> None:
    geometry = picture_geometry(size, preprocessing)
    rows, columns = (size[0] // 4, size[0] // 2 + 7), (size[1] // 4 + 3, size[1] // 2 + 11)
    picture = np.zeros((*size, 3), np.uint8)
    picture[slice(*rows), slice(*columns)] = 255
    bright = decoded(picture, preprocessing)[0] > 0.5
    (top, bottom), (left, right) = geometry.to_input((rows, columns))
    inside = np.zeros_like(bright)
    inside[top:bottom, left:right] = True
    assert not (bright & ~inside).any()
    # What is not bright inside is the rim: a pixel that the region touches, and covers by less than half.
    assert bright[top + 1 : bottom - 1, left + 1 : right - 1].all()
    assert min(bottom - top, right - left) > 4


@pytest.mark.parametrize("preprocessing", PREPROCESSINGS, ids=lambda each: f"{each.resize}-{each.crop}")
@pytest.mark.parametrize("size", [(96, 160), (150, 64)])
def test_what_the_network_sees_is_all_that_changes_its_input(
    size: tuple[int, int], preprocessing: Preprocessing
) -> None:
    (top, bottom), (left, right) = picture_geometry(size, preprocessing).seen
    black = np.zeros((*size, 3), np.uint8)
    outside = np.full_like(black, 255)
    margin = 6  # resizing blends neighbours
    outside[max(0, top - margin) : bottom + margin, max(0, left - margin) : right + margin] = 0
    np.testing.assert_array_equal(decoded(outside, preprocessing), decoded(black, preprocessing))
    inside = black.copy()
    inside[top + 2 : bottom - 2, left + 2 : right - 2] = 255
    assert decoded(inside, preprocessing).max() == 1
    if preprocessing.crop <= min(picture_geometry(size, preprocessing).resized):
        assert decoded(inside, preprocessing)[:, 3:-3, 3:-3].min() == 1


@settings(deadline=None, max_examples=50)
@given(
    st.tuples(st.integers(20, 500), st.integers(20, 500)),
    st.sampled_from(PREPROCESSINGS),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
)
def test_there_and_back_covers_the_region(
    size: tuple[int, int], preprocessing: Preprocessing, at: tuple[float, ...]
) -> None:
    geometry = picture_geometry(size, preprocessing)
    crop = preprocessing.crop
    low = [max(0, -offset) for offset in geometry.offset]
    high = [min(crop, extent - offset) for extent, offset in zip(geometry.resized, geometry.offset, strict=True)]
    starts = [a + int(share * (b - a - 1)) for a, b, share in zip(low, high, at[:2], strict=True)]
    stops = [s + 1 + int(share * (b - s - 1)) for s, b, share in zip(starts, high, at[2:], strict=True)]
    region = ((starts[0], stops[0]), (starts[1], stops[1]))
    back = geometry.to_input(geometry.to_photograph(region))
    for (first, last), (wanted_first, wanted_last), factor in zip(
        back, region, (resized / extent for resized, extent in zip(geometry.resized, size, strict=True)), strict=True
    ):
        assert first <= wanted_first < wanted_last <= last
        assert wanted_first - first <= factor + 1
        assert last - wanted_last <= factor + 1


def test_a_region_that_is_cropped_away_is_refused() -> None:
    geometry = picture_geometry((100, 400), Preprocessing(crop=32, resize=32))
    with pytest.raises(InvalidArgumentError, match="is cropped away: the network sees rows 0 to 100 and columns 150"):
        geometry.to_input(((0, 100), (0, 50)))
    with pytest.raises(
        InvalidArgumentError, match="columns must be a range within 0 and the photograph's 400, got 390 to 401"
    ):
        geometry.to_input(((0, 100), (390, 401)))
    with pytest.raises(InvalidArgumentError, match=r"rows must be a range within .* got 5 to 5"):
        geometry.to_input(((5, 5), (0, 50)))
