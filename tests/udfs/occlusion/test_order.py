"""The order of a heat map's places, the picture so far, and the pace at which they are computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.graph import Layer, LayerGraph, Window
from optimizer.occlusion import OcclusionGrid, UpdatePatches, update_patches
from udfs.occlusion import Occlusion, Pace, coarse_to_fine, nearest_known

SHAPES = st.one_of(
    st.tuples(st.integers(1, 60)),
    st.tuples(st.integers(1, 30), st.integers(1, 30)),
    st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 7)),
)


@given(SHAPES, st.integers(0, 9), st.floats(0, 1))
def test_levels_share_no_place_and_leave_none_out(shape: tuple[int, ...], seed: int, share: float) -> None:
    places = np.random.default_rng(seed).random(shape) <= share
    levels = list(coarse_to_fine(places))
    assert all(level.any() for level in levels)
    np.testing.assert_array_equal(np.sum([*levels, np.zeros(shape)], axis=0), places.astype(float))


@given(SHAPES)
def test_each_level_halves_the_stride_from_a_few_places_on(shape: tuple[int, ...]) -> None:
    known = np.zeros(shape, np.bool_)
    levels = list(coarse_to_fine(np.ones(shape, np.bool_)))
    assert levels[0].sum() <= 4
    for number, level in enumerate(levels):
        known |= level
        lattice = np.zeros(shape, np.bool_)
        lattice[(slice(None, None, 2 ** (len(levels) - 1 - number)),) * len(shape)] = True
        np.testing.assert_array_equal(known, lattice)


@given(SHAPES)
def test_a_map_is_a_picture_after_every_level(shape: tuple[int, ...]) -> None:
    ramp = np.indices(shape)[0].astype(np.float32)
    heat_map = np.full(shape, np.nan, np.float32)
    assert np.isnan(nearest_known(heat_map)).all()
    levels = list(coarse_to_fine(np.ones(shape, np.bool_)))
    for number, level in enumerate(levels):
        heat_map[level] = ramp[level]
        filled = nearest_known(heat_map)
        known = ~np.isnan(heat_map)
        np.testing.assert_array_equal(filled[known], ramp[known])
        stride = 2 ** (len(levels) - 1 - number)
        assert np.abs(filled - ramp).max() <= stride - (stride > 1), "the nearest known place is nearer than a stride"


def patches_of(size: int = 64, stride: int = 4) -> tuple[UpdatePatches, Occlusion]:
    image = Layer("image", "input", (), (3, size, size))
    wide = Window((15, 15), (1, 1), (7, 7), (1, 1))
    conv = Layer("conv", "Conv2d", ("image",), (4, size, size), flops=10**6, window=wide)
    dense = Layer("dense", "Linear", ("conv",), (10,), flops=10**4)
    occlusion = Occlusion(OcclusionGrid((size, size), (8, 8), (stride, stride)), (0.0,) * 3)
    return update_patches(LayerGraph([image, conv, dense], ["dense"]), occlusion.grid), occlusion


def seconds_of(patches: UpdatePatches, places: np.ndarray) -> float:
    """Compute by a machine that makes a GFLOP a second, one place at a time."""
    return sum(patches.flops(*index) + patches.whole_flops for index in np.argwhere(places)) / 1e9


def test_the_border_alone_foretells_the_middle_by_its_flops() -> None:
    patches, occlusion = patches_of()
    middle = np.zeros(occlusion.grid.shape, np.bool_)
    middle[3:-3, 3:-3] = True
    pace = Pace(patches, occlusion, occlusion.grid.count)
    assert pace.seconds_left is None
    took = seconds_of(patches, ~middle)
    pace.add(~middle, took)
    truth = seconds_of(patches, middle)
    assert pace.seconds_left == pytest.approx(truth, rel=0.1)
    by_count = took / (~middle).sum() * middle.sum()
    assert by_count != pytest.approx(truth, rel=0.1), "or else this test says nothing"
    pace.add(middle, truth)
    assert pace.seconds_left == 0
    assert pace.done == pace.places == occlusion.grid.count


def test_the_estimate_follows_the_load_and_forgets_the_start() -> None:
    patches, occlusion = patches_of()
    naive = Occlusion(occlusion.grid, occlusion.fill, mode="naive")
    pace = Pace(patches, naive, occlusion.grid.count)
    pace.assume(100.0)
    assert pace.seconds_left == pytest.approx(100 * occlusion.grid.count)
    computed = np.zeros(occlusion.grid.shape, np.bool_)
    for row, seconds in ((0, 40.0), (1, 15.0), (2, 15.0), (3, 15.0), (4, 15.0)):  # the first is cold
        computed[row] = True
        pace.add(computed, seconds)
    assert pace.seconds_left == pytest.approx(10 * 15)
    for row, seconds in ((5, 60.0), (6, 60.0)):  # others use the machine, too
        computed[row] = True
        pace.add(computed, seconds)
    assert pace.seconds_left == pytest.approx(8 * 60)
    pace.add(computed, 1.0)
    assert pace.seconds_left == pytest.approx(8 * 60), "no place is new"


def test_a_place_costs_a_run_where_the_whole_network_runs_for_each() -> None:
    patches, occlusion = patches_of()
    pace = Pace(patches, occlusion, occlusion.grid.count, in_full=True)
    border = np.zeros(occlusion.grid.shape, np.bool_)
    border[0] = True
    pace.add(border, 15.0)
    assert pace.seconds_left == pytest.approx(14 * 15)
    assert pace.work == occlusion.grid.count


def test_a_network_without_flops_has_an_estimate_too() -> None:
    image = Layer("image", "input", (), (3, 8, 8))
    grid = OcclusionGrid((8, 8), (2, 2), (2, 2))
    patches = update_patches(LayerGraph([image, Layer("own", "custom", ("image",), (2,))], ["own"]), grid)
    pace = Pace(patches, Occlusion(grid, (0.0,) * 3), grid.count)
    half = np.zeros(grid.shape, np.bool_)
    half[:2] = True
    pace.add(half, 3.0)
    assert pace.seconds_left == pytest.approx(3)


def test_drill_down_has_fewer_places_than_the_heat_map() -> None:
    patches, occlusion = patches_of()
    naive = Occlusion(occlusion.grid, occlusion.fill, mode="naive")
    pace = Pace(patches, naive, 100)
    first = next(coarse_to_fine(np.ones(occlusion.grid.shape, np.bool_)))
    pace.add(first, float(first.sum()))
    assert (pace.done, pace.places) == (first.sum(), 100)
    assert pace.seconds_left == pytest.approx(100 - first.sum())


def test_the_next_news_is_a_level_or_a_few_batches() -> None:
    patches, occlusion = patches_of(stride=1)
    naive = Occlusion(occlusion.grid, occlusion.fill, mode="naive", batch_size=8)
    pace = Pace(patches, naive, occlusion.grid.count)
    assert pace.next_seconds == 0
    pace.assume(2.0)
    levels = list(coarse_to_fine(np.ones(occlusion.grid.shape, np.bool_)))
    assert pace.next_seconds == pytest.approx(2 * levels[0].sum())
    for level in levels[:-1]:
        pace.add(level, 2.0 * level.sum())
    assert pace.next_seconds == pytest.approx(2 * 4 * 8)
