"""Drill-down, likeness, tuning, and heat maps of small networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch import nn

from optimizer.occlusion import OcclusionGrid, PatchError
from udfs.handlers import TensorSpec, framework
from udfs.occlusion import (
    TAUS,
    Curve,
    HeatMap,
    Lattice,
    Measured,
    Occlusion,
    TargetError,
    bisected,
    fitted,
    similarity,
)
from udfs.occlusion.occluder import Occluder
from udfs.occlusion.tuning import Tuning


@st.composite
def grids(draw: st.DrawFn) -> OcclusionGrid:
    """Grids with a last place flush with the border, nearer to the one before it than a stride."""
    stride = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    image = tuple(4 + draw(st.integers(0, 20 * step)) for step in stride)
    return OcclusionGrid(image, (4, 4), stride)


def heat_map(model: Any, of: Occlusion, picture: np.ndarray, target: int | None = None, **options: Any) -> HeatMap:
    occluder = Occluder(model, of)
    return occluder.heat_map(occluder.opened(picture), target, **options)


@given(grids(), st.integers(1, 6), st.floats(0, 1), st.integers(0, 9))
def test_stage_two_is_the_asked_share_in_whole_cells_around_the_lowest(
    grid: OcclusionGrid, step: int, fraction: float, seed: int
) -> None:
    lattice = Lattice(grid, step)
    values = np.where(lattice.first, np.random.default_rng(seed).random(grid.shape), np.nan)
    second = lattice.second(values, fraction)
    assert not (second & lattice.first).any()
    covered = int((second | lattice.first).sum()) if fraction else 0
    wanted = fraction * values.size
    assert covered >= wanted - 1e-9 or step == 1
    # A cell more than asked at most.
    chosen = second.sum()
    assert chosen <= wanted + (2 * step) ** 2
    if fraction > 0:
        lowest = np.unravel_index(np.nanargmin(values), grid.shape)
        nearest = [np.ones(extent, np.bool_) for extent in grid.shape]
        for axis, at in enumerate(lowest):
            starts, known = grid.starts(axis), lattice.first.any(axis=1 - axis)
            distances = np.abs(starts[:, None] - starts[known])
            nearest[axis] = np.abs(starts - starts[at]) <= distances.min(axis=1)
            nearest[axis] &= (distances == distances.min(axis=1, keepdims=True)).sum(axis=1) == 1
        assert (second | lattice.first)[np.ix_(*nearest)].all(), "every place whose nearest one is the lowest"


@given(grids(), st.integers(1, 6))
def test_what_was_computed_stays_and_a_plane_is_filled_exactly(grid: OcclusionGrid, step: int) -> None:
    lattice = Lattice(grid, step)
    assert lattice.first[-1, -1]
    assert lattice.first[::step, ::step].all()
    assert lattice.first.sum() <= np.prod([-(-(extent - 1) // step) + 1 for extent in grid.shape])
    plane = np.add.outer(2.0 * grid.starts(0), 3.0 * grid.starts(1))
    filled = lattice.filled(np.where(lattice.first, plane, np.nan))
    np.testing.assert_allclose(filled, plane, err_msg="up to the border, and by pixels")
    known = np.where(lattice.first, plane, np.nan)
    known[-1, -1] = -7.0
    assert lattice.filled(known)[-1, -1] == -7.0
    assert not np.isnan(lattice.filled(known)).any()


def test_likeness_is_one_for_equal_maps_and_judges_by_the_exact_ones_span() -> None:
    draw = np.random.default_rng(0)
    exact = draw.random((20, 20))
    noise = draw.normal(size=exact.shape)
    assert similarity(exact, exact) == pytest.approx(1)
    near, far = similarity(exact, exact + 0.01 * noise), similarity(exact, exact + 0.3 * noise)
    assert 0.9 < near < 1
    assert far < 0.8
    # The same picture with a tenth of the contrast, and a tenth of the noise.
    assert similarity(exact / 10, (exact + 0.3 * noise) / 10) == pytest.approx(far)
    assert similarity(exact[:4, :4], exact[:4, :4]) == pytest.approx(1)


def test_a_curve_goes_through_what_it_was_fitted_to() -> None:
    curve = fitted([[tau**2 for tau in TAUS], [tau**2 for tau in TAUS]])
    assert curve.at(0.7) == pytest.approx(0.49)
    assert curve.lowest(0.49) == pytest.approx(0.7)
    assert curve.lowest(1.1) is None
    assert Curve((0.0, 0.0, 2.0)).at(0.5) == 1, "SSIM ends at 1"


def test_a_curve_of_each_image_s_own_taus_ends_where_they_end() -> None:
    curve = fitted([[1.0, 0.81, 0.49], [1.0, 0.64, 0.36]], [[1.0, 0.9, 0.7], [1.0, 0.8, 0.6]])
    assert curve.at(0.65) == pytest.approx(0.65**2)
    assert curve.lowest(0.1) == pytest.approx(0.6), "nothing is known below"
    assert fitted([[1.0]], [[1.0]]).lowest(0.9) == 1


@given(st.floats(0.01, 0.99), st.floats(0.5, 4), st.integers(1, 6))
def test_bisection_encloses_where_the_likeness_falls_below_the_target(target: float, power: float, steps: int) -> None:
    measured = bisected(lambda tau: tau**power, target, low=0.0, high=1.0, steps=steps)
    assert len(measured) == len({tau for tau, _ in measured}) == steps
    crossing = target ** (1 / power)
    above = min([1.0, *(tau for tau, likeness in measured if likeness >= target)])
    below = max([0.0, *(tau for tau, likeness in measured if likeness < target)])
    assert below <= crossing + 1e-9
    assert crossing <= above + 1e-9
    assert above - below == pytest.approx(0.5**steps)


def test_the_lowest_tau_is_reached_without_falling_below_the_target_on_the_way() -> None:
    """A parabola that turns: what is beyond the dip is not to be trusted."""
    curve = fitted([[1.0, 0.8, 0.68, 0.64, 0.68, 0.8, 1.0]])
    assert curve.at(0.4) > 0.95
    assert curve.lowest(0.75) == pytest.approx(0.86, abs=0.03)


def occlusion(**options: object) -> Occlusion:
    grid = OcclusionGrid((24, 24), (6, 6), (2, 2))
    return Occlusion(**{"grid": grid, "fill": (0.0, 0.0), "batch_size": 16, **options})


def network(outputs: int = 3) -> object:
    torch.manual_seed(3)
    layers: list[nn.Module] = [nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(54, outputs)).eval()
    nn.init.uniform_(net[1].running_mean)
    return framework("torch").trace(net, [TensorSpec((2, 24, 24))])


@pytest.fixture
def picture() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(2, 24, 24)).astype(np.float32)


def test_modes_agree_and_a_target_is_another_map(picture: np.ndarray) -> None:
    model = network()
    exact = heat_map(model, occlusion(), picture)
    naive = heat_map(model, occlusion(mode="naive"), picture)
    assert np.ptp(exact.values) > 1e-3
    np.testing.assert_allclose(exact.values, naive.values, atol=1e-6)
    assert (exact.predicted, exact.target) == (naive.predicted, naive.predicted)
    plain = heat_map(model, occlusion(mode="approximate"), picture)
    np.testing.assert_array_equal(plain.values, exact.values)
    other = heat_map(model, occlusion(), picture, (exact.predicted + 1) % 3)
    assert other.predicted == exact.predicted != other.target
    assert not np.allclose(other.values, exact.values)
    with pytest.raises(TargetError, match="from 0 to 2, got 3"):
        heat_map(model, occlusion(), picture, 3)


def test_an_approximate_map_has_exact_values_where_it_was_computed_and_costs_less(picture: np.ndarray) -> None:
    model = network()
    exact = heat_map(model, occlusion(), picture).values
    seen: list[int] = []
    drilled = heat_map(
        model,
        occlusion(mode="approximate", step=3, fraction=0.2),
        picture,
        on_update=lambda values: seen.append(int(np.isfinite(values).sum())),
    )
    assert seen == sorted(seen)
    assert seen[-1] == exact.size
    assert seen[-2] < 0.6 * exact.size, "the last is what is filled in"
    equal = np.isclose(drilled.values, exact, atol=1e-6)
    assert seen[-2] <= equal.sum() < exact.size
    assert equal[np.unravel_index(exact[::3, ::3].argmin(), exact[::3, ::3].shape)[0] * 3, :].any()
    rough = Occluder(model, occlusion(mode="approximate", tau=0.5))
    assert rough.patches.mean_flops < Occluder(model, occlusion()).patches.mean_flops
    assert not np.allclose(rough.heat_map(rough.opened(picture)).values, exact, atol=1e-5)


def test_tuning_estimates_what_the_modes_then_give(picture: np.ndarray) -> None:
    model, of = network(), occlusion(mode="approximate", step=3, fraction=0.2)
    measured = Tuning(model, of, 0.9).measure(picture)
    exact = heat_map(model, occlusion(), picture).values
    assert measured.taus[0] == 1
    assert measured.plain[0] == pytest.approx(1)
    for tau, plain, both in zip(measured.taus, measured.plain, measured.drilled, strict=True):
        whole, drilled = (
            heat_map(model, occlusion(mode="approximate", tau=tau, step=step, fraction=0.2), picture).values
            for step in (1, 3)
        )
        assert plain == pytest.approx(similarity(exact, whole), abs=0.15)
        assert both == pytest.approx(similarity(exact, drilled), abs=0.15)
    rounds = heat_map(model, occlusion(mode="approximate", target_ssim=0.9), picture)
    assert measured.share == pytest.approx(rounds.computed / exact.size)
    assert measured.likeness == pytest.approx(rounds.likeness)
    assert measured.share < measured.cost < measured.share + 4
    assert Measured.from_numbers(measured.numbers()) == measured
    assert measured.seconds > measured.sampled_seconds > 0


def test_rounds_keep_exact_values_and_say_the_likeness(picture: np.ndarray) -> None:
    model = network()
    fine = OcclusionGrid((24, 24), (6, 6), (1, 1))
    exact = heat_map(model, occlusion(grid=fine), picture)
    assert (exact.likeness, exact.computed) == (None, exact.values.size)
    seen: list[np.ndarray] = []
    rough = heat_map(model, occlusion(grid=fine, mode="approximate", target_ssim=0.3), picture, on_update=seen.append)
    assert 0 < rough.computed < 0.6 * exact.values.size
    assert np.isfinite(seen[-2]).sum() == rough.computed
    known = np.isfinite(seen[-2])
    np.testing.assert_allclose(rough.values[known], exact.values[known], atol=1e-6)
    assert rough.likeness is not None
    assert rough.likeness >= 0.3
    assert rough.likeness == pytest.approx(similarity(exact.values, rough.values), abs=0.2)
    full = heat_map(model, occlusion(grid=fine, mode="approximate", target_ssim=0.98), picture)
    assert (full.likeness, full.computed) == (1.0, exact.values.size)
    np.testing.assert_allclose(full.values, exact.values, atol=1e-6)
    # Sixteen values of a small map say too little of the others.
    small = heat_map(model, occlusion(mode="approximate", target_ssim=0.3), picture)
    assert (small.likeness, small.computed) == (1.0, small.values.size)


@pytest.mark.parametrize(
    "options", [{"tau": 0.5}, {"step": 3, "fraction": 0.2}, {"tau": 0.6, "step": 2}, {"precision": "bfloat16"}]
)
def test_an_approximation_that_was_asked_for_says_its_likeness(picture: np.ndarray, options: dict[str, Any]) -> None:
    model = network()
    exact = heat_map(model, occlusion(), picture).values
    rough = heat_map(model, occlusion(mode="approximate", **options), picture)
    assert rough.likeness is not None
    assert rough.likeness < 1
    assert rough.likeness == pytest.approx(similarity(exact, rough.values), abs=0.15)


def test_a_map_of_two_rows_has_no_likeness(picture: np.ndarray) -> None:
    of = occlusion(mode="approximate", tau=0.5, grid=OcclusionGrid((24, 24), (6, 6), (2, 2), ((0, 8), (0, 24))))
    assert heat_map(network(), of, picture).likeness is None


def test_places_in_bfloat16_are_nearly_the_exact_ones(picture: np.ndarray) -> None:
    model = network()
    exact = heat_map(model, occlusion(), picture)
    rounded = heat_map(model, occlusion(mode="approximate", precision="bfloat16"), picture)
    assert (rounded.predicted, rounded.probability) == (exact.predicted, exact.probability)
    error = np.abs(rounded.values - exact.values)
    assert 0 < error.max() < 0.1 * np.ptp(exact.values)
    picture[:] = 0  # as the patch: no place changes anything, and rounding the weights does
    same = heat_map(model, occlusion(mode="approximate", precision="bfloat16"), picture)
    np.testing.assert_allclose(same.values, same.probability, atol=1e-6)
    precise = heat_map(model, occlusion(precision="bfloat16"), picture)
    np.testing.assert_array_equal(precise.values, heat_map(model, occlusion(), picture).values)


def test_tuning_knows_what_bfloat16_costs(picture: np.ndarray) -> None:
    model = network()
    of = occlusion(mode="approximate", step=3, fraction=0.2, precision="bfloat16")
    measured = Tuning(model, of, 0.9).measure(picture)
    exact = heat_map(model, occlusion(), picture).values
    rounded = heat_map(model, occlusion(mode="approximate", precision="bfloat16"), picture).values
    assert measured.plain[0] == pytest.approx(similarity(exact, rounded), abs=0.03)
    assert 0.9 < measured.plain[0] < 1


@pytest.mark.parametrize("perturbation", ["mean", "blur"])
def test_what_the_patch_has_may_come_from_the_image(picture: np.ndarray, perturbation: str) -> None:
    model = network()
    plain = heat_map(model, occlusion(), picture).values
    exact, naive = (
        heat_map(model, occlusion(mode=mode, perturbation=perturbation), picture).values for mode in ("exact", "naive")
    )
    np.testing.assert_allclose(exact, naive, atol=1e-6)
    assert not np.allclose(exact, plain, atol=1e-4)
    flat = np.full_like(picture, 0.7)
    found = heat_map(model, occlusion(perturbation=perturbation), flat)
    np.testing.assert_allclose(found.values, found.probability, rtol=1e-5, err_msg="a flat image is its own mean")


def test_a_tau_that_is_no_fraction_is_refused() -> None:
    with pytest.raises(PatchError, match=r"tau must be .* got 1\.5"):
        Occluder(network(), occlusion(mode="approximate", tau=1.5))


def test_a_single_output_is_a_value(picture: np.ndarray) -> None:
    mapped = heat_map(network(outputs=1), occlusion(), picture)
    assert mapped.target == 0
    assert mapped.score.startswith("value: the one output of")
    assert np.ptp(mapped.values) > 1e-4, "a softmax of one output is 1 everywhere"


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5))
def test_every_batch_size_and_stride(batch_size: int, stride: int) -> None:
    picture = np.random.default_rng(1).normal(size=(2, 24, 24)).astype(np.float32)
    grid = OcclusionGrid((24, 24), (6, 6), (stride + 1, stride + 2), ((0, 24), (3, 22)))
    model = network()
    exact, naive = (
        heat_map(model, occlusion(grid=grid, mode=mode, batch_size=batch_size), picture).values
        for mode in ("exact", "naive")
    )
    assert exact.shape == grid.shape
    np.testing.assert_allclose(exact, naive, atol=1e-6)
