"""The likeness of a heat map: SSIM, its estimate from some places, and the choice of these places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.occlusion import OcclusionGrid
from udfs.occlusion import Sampling, Surface, similarity, spread_places


def bumps(shape: tuple[int, ...], seed: int, count: int = 6, width: float = 3.0) -> np.ndarray:
    """A prediction that some blobs of the image matter to."""
    draw = np.random.default_rng(seed)
    places = np.indices(shape)
    total = np.full(shape, 0.9)
    for _ in range(count):
        middle = [draw.uniform(0, extent) for extent in shape]
        squares = sum((at - here) ** 2 for at, here in zip(places, middle, strict=True))
        total -= draw.uniform(0.05, 0.3) * np.exp(-squares / (2 * (width * draw.uniform(0.7, 2.0)) ** 2))
    return total


def axes(shape: tuple[int, ...]) -> list[np.ndarray]:
    return [np.arange(float(extent)) for extent in shape]


def grid(rows: int, columns: int) -> OcclusionGrid:
    return OcclusionGrid((rows + 3, columns + 3), (4, 4), (1, 1))


@pytest.mark.parametrize("shape", [(20, 33), (7, 7), (4, 9), (30,), (5, 6, 7)])
def test_likeness_is_that_of_scikit_image(shape: tuple[int, ...]) -> None:
    metrics = pytest.importorskip("skimage.metrics")
    draw = np.random.default_rng(0)
    exact = 0.7 + 0.01 * draw.random(shape)
    other = exact + 0.003 * draw.normal(size=shape)
    window = min(7, min(shape) - 1 + min(shape) % 2)
    expected = metrics.structural_similarity(exact, other, data_range=float(np.ptp(exact)), win_size=window)
    assert similarity(exact, other) == pytest.approx(expected, abs=1e-9)
    assert similarity(exact, other) < 0.95


def test_a_large_mean_costs_no_digits() -> None:
    """Probabilities of a saturated class differ in their last digits alone."""
    values = bumps((20, 20), 0)
    noisy = values + 0.02 * np.random.default_rng(0).normal(size=values.shape)
    expected = similarity(values, noisy)
    assert 0.3 < expected < 0.98
    assert similarity(1 - 1e-4 * values, 1 - 1e-4 * noisy) == pytest.approx(expected, abs=0.01)


@given(st.integers(0, 50), st.sampled_from([(24, 31), (40,), (9, 10, 11)]))
@settings(max_examples=15, deadline=None)
def test_a_surface_keeps_what_is_known_and_draws_differ_elsewhere(seed: int, shape: tuple[int, ...]) -> None:
    exact = bumps(shape, seed)
    chosen = spread_places(shape, 0.1, seed=seed)
    surface = Surface.through(np.where(chosen, exact, np.nan), axes(shape))
    drawn = surface.draw(np.random.default_rng(seed))
    for values in (surface.mean, drawn):
        np.testing.assert_allclose(values[chosen], exact[chosen], rtol=1e-12)
        assert np.isfinite(values).all()
    assert not np.allclose(drawn, surface.mean)
    assert np.abs(surface.mean - exact).mean() < np.abs(np.mean(exact[chosen]) - exact).mean()


def test_a_flat_map_and_one_that_is_known_everywhere_are_alike() -> None:
    flat = np.full((12, 12), 0.25)
    part = np.where(spread_places(flat.shape, 0.2), flat, np.nan)
    surface = Surface.through(part, axes(flat.shape))
    np.testing.assert_allclose(surface.mean, flat)
    assert surface.likeness(flat) == pytest.approx(1)
    whole = bumps((12, 12), 1)
    assert Surface.through(whole, axes(whole.shape)).likeness(whole) == pytest.approx(1)
    other = whole + 0.1 * np.random.default_rng(0).normal(size=whole.shape)
    known = Surface.through(whole, axes(whole.shape))
    assert known.likeness(other) == pytest.approx(similarity(whole, other))


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03, 0.1])
def test_the_estimate_is_near_the_likeness_of_a_rough_map(noise: float) -> None:
    """A rough map that is wrong everywhere, as tau makes it; five of a hundred places are computed exactly."""
    errors = []
    for seed in range(8):
        exact = bumps((50, 50), seed)
        smooth = bumps((50, 50), 100 + seed, count=20) - 0.9
        rough = 0.3 + 0.7 * exact + noise * smooth / smooth.std()
        sample = np.where(spread_places(exact.shape, seed=seed), exact, np.nan)
        surface = Surface.through(sample, axes(exact.shape), rough)
        errors.append(surface.likeness(rough) - similarity(exact, rough))
    assert np.mean(np.abs(errors)) < 0.06
    assert abs(np.mean(errors)) < 0.05


def test_a_rough_map_raises_the_surface_above_both() -> None:
    exact = bumps((50, 50), 3, count=40, width=1.5)
    rough = 0.3 + 0.6 * exact + 0.02 * (bumps((50, 50), 4, count=20) - 0.9)
    sample = np.where(spread_places(exact.shape), exact, np.nan)
    alone, beside = (Surface.through(sample, axes(exact.shape), trend) for trend in (None, rough))
    likeness = similarity(exact, beside.mean)
    assert likeness > similarity(exact, rough) + 0.02
    assert likeness > similarity(exact, alone.mean) + 0.02


@given(st.integers(1, 30), st.integers(1, 30), st.floats(0.3, 0.99), st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_rounds_ask_for_no_place_twice_and_end(rows: int, columns: int, target: float, seed: int) -> None:
    exact = bumps((rows, columns), seed)
    sampling, values = Sampling(grid(rows, columns), target), np.full((1, rows, columns), np.nan)
    for places in sampling.rounds(values):
        assert places.any()
        assert not np.isfinite(values[0, places]).any()
        values[0, places] = exact[places]
    filled = sampling.filled(values)[0]
    known = np.isfinite(values[0])
    np.testing.assert_array_equal(filled[known], exact[known])
    assert np.isfinite(filled).all()
    (likeness,) = sampling.likeness
    assert likeness >= target
    assert known.all() == (likeness == 1.0 and known.mean() > 0.5)


def test_a_higher_target_costs_more_and_is_reached() -> None:
    shares, reached = [], []
    for target in (0.7, 0.9, 0.95):
        share, likeness = [], []
        for seed in range(4):
            exact = bumps((45, 45), seed, count=25, width=2.0)
            sampling, values = Sampling(grid(45, 45), target), np.full((1, 45, 45), np.nan)
            for places in sampling.rounds(values):
                values[0, places] = exact[places]
            share.append(np.isfinite(values).mean())
            likeness.append(similarity(exact, sampling.filled(values)[0]))
        shares.append(float(np.mean(share)))
        reached.append(float(np.mean(likeness)))
        assert reached[-1] > target - 0.03
    assert shares == sorted(shares)
    assert shares[0] < 0.7 * shares[-1]


def test_noise_is_computed_in_full_and_says_so() -> None:
    exact = np.random.default_rng(0).random((30, 30))
    sampling, values = Sampling(grid(30, 30), 0.9), np.full((1, 30, 30), np.nan)
    for places in sampling.rounds(values):
        values[0, places] = exact[places]
    assert sampling.likeness == (1.0,)
    np.testing.assert_array_equal(sampling.filled(values)[0], exact)


def test_two_maps_of_one_image_are_both_reached() -> None:
    exact = np.stack([bumps((40, 40), 1, count=3, width=6.0), bumps((40, 40), 2, count=30, width=1.5)])
    sampling, values = Sampling(grid(40, 40), 0.9), np.full((2, 40, 40), np.nan)
    for places in sampling.rounds(values):
        values[:, places] = exact[:, places]
    assert min(sampling.likeness) >= 0.9
    for one, filled in zip(exact, sampling.filled(values), strict=True):
        assert similarity(one, filled) > 0.85


@settings(deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.floats(0.01, 1), st.integers(0, 3))
def test_a_sample_is_spread_over_the_map(shape: list[int], share: float, seed: int) -> None:
    chosen = spread_places(shape, share, seed=seed)
    assert chosen.sum() >= min(16, math.prod(shape))
    np.testing.assert_array_equal(chosen, spread_places(shape, share, seed=seed))
    side = round(share ** (-1 / len(shape)))
    for axis, extent in enumerate(shape):
        lines = np.flatnonzero(chosen.any(axis=tuple(other for other in range(len(shape)) if other != axis)))
        assert np.diff([-1, *lines, extent]).max() <= 2 * max(1, side)
