from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.handlers import LayerLayout
from udfs.inference import POOLINGS, Pooling, feature_length, pool

SIDES = st.integers(1, 9)


def maps(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def brute(tensors: np.ndarray) -> np.ndarray:
    count, channels, height, width = tensors.shape
    rows, columns = min(height, 2), min(width, 2)
    found = np.full((count, channels, rows, columns), -np.inf, np.float32)
    for n, c, i, j in np.ndindex(found.shape):
        for y in range(math.floor(i * height / rows), math.ceil((i + 1) * height / rows)):
            for x in range(math.floor(j * width / columns), math.ceil((j + 1) * width / columns)):
                found[n, c, i, j] = max(found[n, c, i, j], tensors[n, c, y, x])
    return found.reshape(count, -1)


@given(SIDES, SIDES)
def test_grid_by_brute_force(height: int, width: int) -> None:
    tensors = maps(2, 3, height, width)
    np.testing.assert_array_equal(pool(tensors, "max2x2"), brute(tensors))


@pytest.mark.parametrize("height", range(2, 8))
@pytest.mark.parametrize("width", range(2, 8))
def test_grid_is_torchs_adaptive_pooling(height: int, width: int) -> None:
    torch = pytest.importorskip("torch")
    tensors = maps(2, 3, height, width)
    expected = torch.nn.functional.adaptive_max_pool2d(torch.from_numpy(tensors), 2).flatten(1).numpy()
    np.testing.assert_array_equal(pool(tensors, "max2x2"), expected)


def test_average_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    tensors = maps(2, 3, 5, 7)
    expected = torch.from_numpy(tensors).mean((2, 3)).numpy()
    np.testing.assert_allclose(pool(tensors, "mean"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_memory_layout_does_not_show(pooling: Pooling) -> None:
    tensors = maps(2, 64, 13, 13)
    turned = np.ascontiguousarray(tensors.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert pool(turned, pooling).tobytes() == pool(tensors, pooling).tobytes()


@pytest.mark.parametrize("pooling", POOLINGS)
@given(st.lists(st.integers(1, 5), max_size=4).map(tuple), st.integers(0, 3))
def test_length_is_foretold(pooling: Pooling, shape: tuple[int, ...], count: int) -> None:
    found = pool(maps(count, *shape), pooling)
    assert found.shape == (count, feature_length(shape, pooling))
    assert found.dtype == np.float32
    assert found.flags.c_contiguous


@pytest.mark.parametrize("shape", [(), (7,), (5, 8), (2, 3, 4, 5)])
def test_other_ranks_are_flattened(shape: tuple[int, ...]) -> None:
    tensors = maps(2, *shape)
    for pooling in POOLINGS:
        np.testing.assert_array_equal(pool(tensors, pooling), tensors.reshape(2, -1))


def test_nothing_is_lost_without_pooling() -> None:
    tensors = maps(2, 3, 4, 5)
    np.testing.assert_array_equal(pool(tensors, "none"), tensors.reshape(2, -1))


@pytest.mark.parametrize("pooling", POOLINGS)
@given(SIDES, SIDES, st.integers(1, 4))
def test_one_map_gives_one_vector_in_every_layout(pooling: Pooling, height: int, width: int, channels: int) -> None:
    tensors = maps(2, channels, height, width)
    last = np.ascontiguousarray(tensors.transpose(0, 2, 3, 1))
    assert pool(last, pooling, "NHWC").tobytes() == pool(tensors, pooling).tobytes()
    expected = feature_length((channels, height, width), pooling)
    assert feature_length((height, width, channels), pooling, "NHWC") == expected


def test_layout_is_of_maps_alone() -> None:
    for shape in ((7,), (5, 8), (2, 3, 4, 5)):
        for pooling in POOLINGS:
            np.testing.assert_array_equal(pool(maps(2, *shape), pooling, "NHWC"), maps(2, *shape).reshape(2, -1))
            assert feature_length(shape, pooling, "NHWC") == math.prod(shape)


@pytest.mark.parametrize("pooling", ["mean", "max2x2"])
@given(SIDES, SIDES, st.integers(1, 4), st.integers(0, 2), st.integers(0, 2))
def test_tokens_of_a_map_are_pooled_as_the_map(
    pooling: Pooling, height: int, width: int, channels: int, leading: int, trailing: int
) -> None:
    tensors = maps(2, channels, height, width)
    tokens = tensors.reshape(2, channels, -1).transpose(0, 2, 1)
    others = np.full((2, 1, channels), 1e6, np.float32)  # would show in a mean, and in a maximum
    tokens = np.concatenate([others.repeat(leading, 1), tokens, others.repeat(trailing, 1)], 1)
    layout = LayerLayout((0,), (height, width), leading, trailing)
    np.testing.assert_array_equal(pool(tokens, pooling, layout), pool(tensors, pooling))
    assert feature_length(tokens.shape[1:], pooling, layout) == feature_length(tensors.shape[1:], pooling)


def test_tokens_without_pooling_are_all_there() -> None:
    tokens = maps(2, 17, 3)
    np.testing.assert_array_equal(pool(tokens, "none", LayerLayout((0,), (4, 4), 1)), tokens.reshape(2, -1))
    assert feature_length((17, 3), "none", LayerLayout((0,), (4, 4), 1)) == 51


def test_not_a_number_shows() -> None:
    tensors = maps(1, 1, 4, 4)
    tensors[0, 0, 0, 0] = np.nan
    assert np.isnan(pool(tensors, "max2x2")).tolist() == [[True, False, False, False]]
