"""Pictures of heat maps: colours, limits, words. The figure's objects count here, not its pixels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optimizer.occlusion import OcclusionGrid
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion import Explanation, TensorExplanation

pytest.importorskip("matplotlib")

from matplotlib import colormaps
from matplotlib.colors import to_rgb

SCORE = "probability: softmax over the 1000 outputs of 'fc'"
GRID = OcclusionGrid((64, 64), (16, 16), (8, 8))

# Linear RGB as a protanope and a deuteranope see it (Vienot, Brettel and Mollon 1999).
PROTANOPIA = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
DEUTERANOPIA = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])


def explanation(heat_map: np.ndarray, probability: float, **facts: Any) -> Explanation:
    image = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    usual: dict[str, Any] = {"score": SCORE, "top": ((281, 0.7), (285, 0.2), (7, 0.05), (8, 0.02), (9, 0.01))}
    grid = facts.pop("grid", GRID)
    return Explanation(
        heat_map.astype(np.float32), grid, 281, 281, probability, facts.pop("mode", "exact"), 2.0, 1.5, image,
        **usual | facts,
    )  # fmt: skip


def bumpy(probability: float, below: float, above: float = 0.0) -> np.ndarray:
    """A heat map whose places change a probability by up to so much, most of them by half of it."""
    values = np.full(GRID.shape, probability)
    values[:3] -= below / 2
    values[3] -= below
    values[4:6] += above
    return values


def words(figure: Any) -> str:
    texts = [axes.get_title().replace("\n", " ") for axes in figure.axes]
    if figure._supxlabel is not None:
        texts.append(figure._supxlabel.get_text())
    if figure._suptitle is not None:
        texts.append(figure._suptitle.get_text())
    return "\n".join(texts)


@pytest.mark.parametrize(("probability", "below"), [(0.7, 0.1), (0.99, 0.06), (0.003, 0.002)])
def test_the_scale_fits_the_data_and_is_centred_on_the_whole_image(probability: float, below: float) -> None:
    mesh = explanation(bumpy(probability, below), probability).plot().axes[1].collections[0]
    low, high = mesh.get_clim()
    assert (low + high) / 2 == pytest.approx(probability, rel=1e-6)
    assert low == pytest.approx(probability - below, abs=1e-6)
    assert mesh.colorbar.extend == "neither"
    shades = mesh.norm(bumpy(probability, below))
    assert shades.min() < 0.01, "the most important place has the end of the palette, whatever the probability"
    assert mesh.norm(probability) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(("probability", "share"), [(0.99, 0.004), (0.5, 0.01), (0.01, 0.04), (0.3, 0.001)])
def test_colours_are_proportional_to_a_small_effect(probability: float, share: float) -> None:
    """A change of 0.4 % has 8 % of the colours, whose end is a change of 5 % at least."""
    values = bumpy(probability, share * probability)
    mesh = explanation(values, probability).plot().axes[1].collections[0]
    assert 0.5 - mesh.norm(values).min() == pytest.approx(0.5 * share / 0.05, rel=1e-3)
    opacity = np.array([mesh.cmap(at)[3] for at in (0.5, 0.75, 1.0)])
    assert opacity[1] - opacity[0] == pytest.approx(opacity[2] / 2, abs=0.02)


def test_a_few_places_beyond_the_scale_are_shown_by_an_arrow() -> None:
    grid = OcclusionGrid((64, 64), (4, 4), (3, 3))
    values = np.full(grid.shape, 0.5)
    values[5:9, 5:9] = 0.45
    values[0, 0] = 0.1
    mesh = explanation(values, 0.5, grid=grid).plot().axes[1].collections[0]
    low, high = mesh.get_clim()
    assert mesh.colorbar.extend == "min"
    assert 0.1 < low < 0.45
    assert high == pytest.approx(1 - low)
    values[0, 1] = 0.9
    assert explanation(values, 0.5, grid=grid).plot().axes[1].collections[0].colorbar.extend == "both"
    values[0, 0] = 0.5
    assert explanation(values, 0.5, grid=grid).plot().axes[1].collections[0].colorbar.extend == "max"


@pytest.mark.parametrize("probability", [0.8, 1.0, 1e-6])
def test_noise_is_not_shown_as_structure(probability: float) -> None:
    noise = probability * (1 + 1e-6 * np.random.default_rng(0).normal(size=GRID.shape))
    figure = explanation(noise, probability).plot()
    assert "flat: no place changes its probability of" in words(figure)
    assert "by more than" in words(figure)
    mesh = figure.axes[1].collections[0]
    assert np.abs(mesh.norm(noise.astype(np.float32)) - 0.5).max() < 0.06
    real = explanation(bumpy(probability, 0.01 * probability), probability).plot()
    assert "flat" not in words(real), "a hundredth is no noise, however small the probability"


def test_a_bar_of_probabilities_ends_at_0_and_1() -> None:
    figure = explanation(bumpy(0.99, 0.3), 0.99).plot()
    low, high = figure.axes[1].collections[0].colorbar.ax.get_ylim()
    assert high == pytest.approx(1)
    assert low == pytest.approx(0.69, abs=1e-5)
    odds = explanation(bumpy(0.99, 0.3), 0.99, score="log_odds: of 'fc'").plot()
    assert odds.axes[1].collections[0].colorbar.ax.get_ylim()[1] == pytest.approx(1.29, abs=1e-5)


def test_places_that_are_not_computed_have_no_colour() -> None:
    values = bumpy(0.7, 0.1)
    values[0, 0] = np.nan
    mesh = explanation(values, 0.7).plot().axes[1].collections[0]
    assert np.ma.getmaskarray(mesh.get_array())[0, 0]
    assert np.ma.getmaskarray(mesh.get_array()).sum() == 1
    assert explanation(np.full(GRID.shape, np.nan), 0.7).plot().axes


def test_the_seeds_palette_has_the_seeds_limits() -> None:
    for probability, high in ((0.5, 0.625), (0.9, 1.0)):
        mesh = explanation(bumpy(probability, 0.3), probability).plot(palette="jet_r").axes[1].collections[0]
        assert mesh.get_clim() == pytest.approx((0.75 * probability, high))
        np.testing.assert_allclose(mesh.cmap(0.0)[:3], colormaps["jet_r"](0.0)[:3])
        assert mesh.colorbar.extend == "min"
    with pytest.raises(InvalidArgumentError, match=r"got 'jet_r', whose limits are 0.75 and 1.25 times"):
        explanation(bumpy(0.5, 0.3), 0.5, score="logit: the 3 outputs of 'fc'").plot(palette="jet_r")
    with pytest.raises(InvalidArgumentError, match="got 'PuOrr'; did you mean 'PuOr_r'"):
        explanation(bumpy(0.5, 0.3), 0.5).plot(palette="PuOrr")


def test_low_is_red_and_the_ends_differ_for_the_colour_blind() -> None:
    mesh = explanation(bumpy(0.5, 0.3), 0.5).plot().axes[1].collections[0]
    low, middle, high = (np.array(mesh.cmap(at)) for at in (0.1, 0.5, 0.9))
    assert low[0] > low[2] + 0.3, "red: it counts"
    for seen in (np.eye(3), PROTANOPIA, DEUTERANOPIA):
        first, last = (seen @ np.power(color[:3], 2.2) for color in (low, high))
        assert np.abs(first - last).max() > 0.3
    assert middle[3] < 0.1, "the image shows where nothing changes"
    assert min(low[3], high[3]) > 0.6
    # jet's two ends of the same lightness, and red with green, would not do.
    red, green = (np.power(to_rgb(color), 2.2) for color in ("#d7191c", "#1a9641"))
    assert np.abs(PROTANOPIA @ red - PROTANOPIA @ green).max() < 0.3


def test_the_words_say_what_it_is_and_how_it_was_made() -> None:
    names = tuple(f"animal {number}" for number in range(1000))
    figure = explanation(bumpy(0.7, 0.1), 0.7, class_names=names).plot()
    said = words(figure)
    assert "predicted: animal 281" in figure.axes[0].get_title()
    assert "probability of animal 281 with the patch at each place (0.70 without)" in said
    assert "animal 281 0.70, animal 285 0.20, animal 7 0.05, animal 8 0.02, animal 9 0.01" in said
    assert "patch 16 x 16, stride 8 x 8, 7 x 7 places; exact, 1.5 s" in said
    assert SCORE in said
    assert "SSIM" not in said
    assert "RANDOM" not in said
    rough = words(explanation(bumpy(0.7, 0.1), 0.7, mode="approximate", likeness=0.934).plot())
    assert "approximate, 1.5 s, estimated SSIM with the exact heat map 0.93" in rough
    assert "not estimated" in words(explanation(bumpy(0.7, 0.1), 0.7, mode="approximate").plot())
    assert "class 281 0.70, class 285 0.20" in rough
    random = explanation(bumpy(0.7, 0.1), 0.7, has_random_weights=True).plot()
    assert "RANDOM WEIGHTS" in words(random)
    assert to_rgb(random._suptitle.get_color()) == (1, 0, 0)
    value = words(explanation(bumpy(0.7, 0.1), 0.7, score="value: the one output of 'fc'").plot())
    assert "value of element 281" in value


def test_cells_meet_half_way_where_the_last_place_is_nearer() -> None:
    grid = OcclusionGrid((61, 64), (16, 16), (8, 8))
    assert np.diff(grid.starts(0)).tolist() == [8, 8, 8, 8, 8, 5]
    mesh = explanation(np.full(grid.shape, 0.5), 0.5, grid=grid).plot().axes[1].collections[0]
    rows = mesh.get_coordinates()[:, 0, 1]
    assert rows.tolist() == [4, 12, 20, 28, 36, 44, 50.5, 57]
    columns = mesh.get_coordinates()[0, :, 0]
    assert columns.tolist() == [4, 12, 20, 28, 36, 44, 52, 60]


def test_a_series_and_a_plane_have_the_same_scale_and_words() -> None:
    grid = OcclusionGrid((64,), (16,), (8,))
    shared: dict[str, Any] = {"score": SCORE, "top": ((1, 0.7),), "class_names": ("still", "walking")}
    series = TensorExplanation(
        bumpy(0.7, 0.1)[:, 0].astype(np.float32), grid, 1, 1, 0.7, "exact", 2.0, 1.5, np.zeros((3, 64), np.float32),
        **shared,
    )  # fmt: skip
    figure = series.plot()
    above, below = figure.axes
    assert above.get_title() == "predicted: walking; 3 channels"
    assert below.get_ylim() == pytest.approx((0.6, 0.8))
    assert "patch 16, stride 8, 7 places; exact" in words(figure)
    assert below.lines[0].get_xdata().tolist() == [8, 16, 24, 32, 40, 48, 56]
    plane = replace(series, heat_map=bumpy(0.7, 0.1).astype(np.float32), grid=GRID, tensor=np.zeros((3, 64, 64)))
    mesh = plane.plot(palette="PuOr").axes[0].collections[0]
    assert mesh.get_clim() == pytest.approx((0.6, 0.8))
    np.testing.assert_allclose(mesh.cmap(0.5), colormaps["PuOr"](0.5), atol=0.02)
    assert plane.plot().axes[0].get_ylim() == (64, 0)
