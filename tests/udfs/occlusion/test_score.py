"""Scores: decided once on the whole image, the same in all modes and for all batch sizes, and said in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional

from optimizer.errors import InvalidArgumentError
from optimizer.occlusion import OcclusionGrid
from udfs.handlers import TensorSpec, framework
from udfs.occlusion import HeatMap, NaiveOccluder, Occlusion, Score, ScoreError
from udfs.occlusion.occluder import Occluder

SIDE = 16


class Ended(nn.Module):
    """A small CNN of four outputs that ends as it is told."""

    def __init__(self, end: Any, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.top, self.end, self.scale = nn.Linear(4, 4), end, scale

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        seen = functional.relu(self.second(functional.relu(self.first(image)))).mean((2, 3))
        return self.end(self.scale * self.top(seen))


def traced(end: Any, scale: float = 1.0) -> Any:
    return framework("torch").trace(Ended(end, scale).eval(), [TensorSpec((2, SIDE, SIDE))])


@pytest.fixture
def picture() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(2, SIDE, SIDE)).astype(np.float32)


def mapped(model: Any, picture: np.ndarray, target: int | None = None, **options: Any) -> HeatMap:
    grid = OcclusionGrid((SIDE, SIDE), (4, 4), (4, 4))
    occluder = Occluder(model, Occlusion(grid, (0.0, 0.0), **options))
    return occluder.heat_map(occluder.opened(picture), target)


def by_hand(model: nn.Module, picture: np.ndarray) -> np.ndarray:
    """Outputs of the network for each place, one at a time, in float64."""
    precise = Ended(model.end, model.scale)
    precise.load_state_dict(model.state_dict())
    precise = precise.double().eval()
    outputs = []
    for row, column in np.ndindex(4, 4):
        laid = picture.astype(np.float64)
        laid[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 0
        with torch.inference_mode():
            outputs.append(precise(torch.from_numpy(laid)[None])[0].numpy())
    return np.stack(outputs)


ENDS: dict[str, tuple[Any, Any, str]] = {
    "logits": (nn.Identity(), lambda z: np.exp(z) / np.exp(z).sum(1, keepdims=True), "probability: softmax over the 4"),
    "softmax": (nn.Softmax(1), lambda p: p, "probability: the 4 outputs"),
    "a function": (lambda z: functional.softmax(z, 1), lambda p: p, "probability: the 4 outputs"),
    "a method": (lambda z: z.softmax(1).reshape(-1, 4, 1, 1), lambda p: p.reshape(-1, 4), "probability: the 4 outputs"),
    "log-softmax": (lambda z: functional.log_softmax(z, 1).squeeze(), np.exp, "probability: exp of the 4 outputs"),
    "multi-label": (nn.Sequential(nn.Sigmoid(), nn.Dropout()), lambda p: p, "probability: each of the 4 outputs"),
    "hard sigmoid": (nn.Hardsigmoid(), lambda p: p, "probability: each of the 4 outputs"),
    "ReLU scores": (nn.ReLU(), lambda v: v, "value: the 4 outputs"),
    "tanh": (torch.tanh, lambda v: v, "value: the 4 outputs"),
    "sums to 1": (lambda z: z.exp() / z.exp().sum(1, keepdim=True), lambda p: p, "probability: the 4 outputs"),
    "one value": (lambda z: z[:, :1], lambda v: v, "value: the one output"),
}


@pytest.mark.parametrize("name", [*ENDS])
def test_the_score_is_decided_by_the_last_layer_and_is_the_same_in_all_modes(picture: np.ndarray, name: str) -> None:
    end, expected, statement = ENDS[name]
    model = traced(end, scale=5.0)
    values = expected(by_hand(Ended(end, 5.0), picture).reshape(16, -1))
    for options in ({}, {"batch_size": 1}, {"batch_size": 5}, {"mode": "naive"}, {"mode": "naive", "batch_size": 1}):
        found = mapped(model, picture, 0, **options)
        assert found.score.startswith(statement)
        np.testing.assert_allclose(found.values.ravel(), values[:, 0], atol=2e-6, err_msg=str(options))
    assert np.ptp(values[:, 0]) > 1e-5


@pytest.mark.parametrize(
    ("end", "probability"),
    [
        (nn.Identity(), lambda z: np.exp(z) / np.exp(z).sum(1, keepdims=True)),
        (nn.LogSoftmax(1), np.exp),
        (nn.Softmax(1), lambda p: p),
        (nn.Sigmoid(), lambda p: p),
    ],
)
def test_log_odds_are_those_of_the_probabilities(picture: np.ndarray, end: Any, probability: Any) -> None:
    found = mapped(traced(end, 5.0), picture, 1, score=Score("log_odds"))
    share = probability(by_hand(Ended(end, 5.0), picture))[:, 1]
    assert found.score.startswith("log_odds: log(p / (1 - p))")
    np.testing.assert_allclose(found.values.ravel(), np.log(share / (1 - share)), atol=2e-5)


def test_log_odds_tell_apart_what_float32_calls_1(picture: np.ndarray) -> None:
    model = traced(nn.Identity(), 4000.0)
    flat = mapped(model, picture)
    assert np.ptp(flat.values) == 0, "saturated"
    odds = mapped(model, picture, score=Score("log_odds"))
    logits = by_hand(Ended(nn.Identity(), 4000.0), picture)
    top = odds.target
    others = np.delete(logits, top, axis=1)
    expected = logits[:, top] - (others.max(1) + np.log(np.exp(others - others.max(1, keepdims=True)).sum(1)))
    np.testing.assert_allclose(odds.values.ravel(), expected, rtol=1e-4)
    assert np.ptp(odds.values) > 1


def test_probabilities_logits_and_values_may_be_asked_for(picture: np.ndarray) -> None:
    outputs = by_hand(Ended(nn.ReLU()), picture)
    shares = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    asked = mapped(traced(nn.ReLU()), picture, 0, score=Score("probability"))
    np.testing.assert_allclose(asked.values.ravel(), shares[:, 0], atol=1e-6)
    plain = by_hand(Ended(nn.Identity()), picture)[:, 2]
    for name in ("logit", "value"):
        asked = mapped(traced(nn.Identity()), picture, 2, score=Score(name))
        assert asked.score.startswith(f"{name}: the 4 outputs of")
        np.testing.assert_allclose(asked.values.ravel(), plain, atol=1e-6)
    for end in (nn.Softmax(1), nn.Sigmoid(), lambda z: z.exp() / z.exp().sum(1, keepdim=True)):
        with pytest.raises(ScoreError, match=r'are probabilities.*use output="log_odds"'):
            mapped(traced(end), picture, score=Score("logit"))


def test_a_function_scores_a_map_which_is_refused_without_one(picture: np.ndarray) -> None:
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 3, padding=1)).eval()
    model = framework("torch").trace(net, [TensorSpec((2, SIDE, SIDE))])
    with pytest.raises(ScoreError, match=r"'2', which is a map of shape \(3, 16, 16\).*output=lambda maps"):
        mapped(model, picture)
    score = Score(lambda maps: maps[:, 1].mean(axis=(1, 2)))
    exact, naive = (mapped(model, picture, mode=mode, score=score, batch_size=3) for mode in ("exact", "naive"))
    assert exact.score == "callable: <lambda> of the output of '2'"
    np.testing.assert_allclose(exact.values, naive.values, atol=1e-6)
    assert np.ptp(exact.values) > 1e-4
    with pytest.raises(ScoreError, match=r"for outputs of shape \(1, 3, 16, 16\), got \(\)"):
        mapped(model, picture, score=Score(lambda maps: maps.mean()))
    with pytest.raises(ScoreError, match=r"failed on an array of shape .*IndexError"):
        mapped(model, picture, score=Score(lambda maps: maps[:, 7]))


def test_places_in_bfloat16_are_scored_like_the_others(picture: np.ndarray) -> None:
    for end in (nn.Identity(), nn.Sigmoid(), nn.ReLU()):
        exact = mapped(traced(end), picture, 0)
        rounded = mapped(traced(end), picture, 0, mode="approximate", precision="bfloat16")
        assert rounded.score == exact.score
        assert np.abs(rounded.values - exact.values).max() < 0.2 * np.ptp(exact.values)


def test_several_targets_come_from_one_pass(picture: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    model, grid = traced(nn.Identity()), OcclusionGrid((SIDE, SIDE), (4, 4), (4, 4))
    occluder = Occluder(model, Occlusion(grid, (0.0, 0.0)))
    image = occluder.opened(picture)
    places: list[int] = []
    results = occluder._results
    monkeypatch.setattr(
        occluder, "_results", lambda image, part: places.append(int(part.sum())) or results(image, part)
    )
    seen: list[np.ndarray] = []
    maps = occluder.heat_maps(image, [2, None, 0], seen.append)
    assert sum(places) == grid.count
    assert [each.target for each in maps] == [2, maps[0].predicted, 0]
    for number, each in enumerate(maps):
        np.testing.assert_array_equal(each.values, mapped(model, picture, each.target).values)
        np.testing.assert_array_equal(each.values, seen[-1][number])
    drilled = Occluder(model, Occlusion(grid, (0.0, 0.0), "approximate", step=2, fraction=0.3))
    one, _ = drilled.heat_maps(drilled.opened(picture), [1, 3])
    assert np.isfinite(one.values).all()
    assert occluder.largest(image, 4)[0] == maps[0].predicted


def test_an_output_of_several_is_chosen_by_its_name_or_index(picture: np.ndarray) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below = nn.Conv2d(2, 4, 3, padding=1)
            self.classes, self.boxes = nn.Linear(4, 3), nn.Linear(4, 2)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            seen = functional.relu(self.below(image)).mean((2, 3))
            return self.classes(seen), functional.relu(self.boxes(seen))

    torch.manual_seed(0)
    model = framework("torch").trace(Two().eval(), [TensorSpec((2, SIDE, SIDE))])
    with pytest.raises(ScoreError, match=r"head must be one of .* several outputs"):
        mapped(model, picture)
    with pytest.raises(ScoreError, match="head must be from 0 to 1, of 0, 1, got 2"):
        mapped(model, picture, score=Score(head=2))
    classes, boxes = (mapped(model, picture, 1, score=Score(head=head)) for head in (0, 1))
    assert classes.score.startswith("probability: softmax over the 3 outputs of 'classes'")
    assert boxes.score.startswith("value: the 2 outputs of")
    assert not np.allclose(classes.values, boxes.values)


def test_an_output_that_is_not_finite_is_refused(picture: np.ndarray) -> None:
    with pytest.raises(ScoreError, match="for the whole image is not finite"):
        mapped(traced(lambda z: (z - 1e9).log()), picture)


def test_an_unknown_score_is_hinted_at() -> None:
    with pytest.raises(InvalidArgumentError, match=r"or a function, got 'logits'; did you mean 'logit'"):
        Score("logits")


def test_keras_activations_within_a_layer_count_too(picture: np.ndarray) -> None:
    keras = pytest.importorskip("keras")
    image = np.ascontiguousarray(picture.transpose(1, 2, 0))
    for activation, statement in (
        (None, "probability: softmax over the 3 outputs"),
        ("softmax", "probability: the 3 outputs"),
        ("sigmoid", "probability: each of the 3 outputs"),
        ("relu", "value: the 3 outputs"),
    ):
        layers = [keras.layers.Conv2D(4, 3), keras.layers.Flatten(), keras.layers.Dense(3, activation=activation)]
        net = keras.Sequential([keras.Input((SIDE, SIDE, 2)), *layers])
        model = framework("keras").trace(net, [TensorSpec((SIDE, SIDE, 2))])
        occluder = NaiveOccluder(model, Occlusion(OcclusionGrid((SIDE, SIDE), (4, 4), (4, 4)), (0.0, 0.0)))
        assert occluder.heat_map(occluder.opened(image)).score.startswith(statement)


def test_log_odds_of_a_log_sigmoid_are_the_logits_where_a_probability_rounds_to_1(picture: np.ndarray) -> None:
    odds = mapped(traced(nn.LogSigmoid(), 200.0), picture, score=Score("log_odds"))
    logits = mapped(traced(nn.Identity(), 200.0), picture, odds.target, score=Score("logit"))
    assert logits.values.min() > 17, "beyond what a probability in float32 can say"
    np.testing.assert_allclose(odds.values, logits.values, rtol=1e-4)


@pytest.mark.parametrize("end", [nn.Sigmoid(), nn.Hardsigmoid(), nn.Softmax(1)])
def test_log_odds_of_a_probability_that_is_1_are_refused(picture: np.ndarray, end: Any) -> None:
    """They were cut off at 16.6, on a flat map that was verified."""
    with pytest.raises(ScoreError, match=r"0 or 1 to float32's precision.*without its last activation"):
        mapped(traced(end, 5000.0), picture, score=Score("log_odds"))


class Complement(nn.Module):
    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return 1 - torch.sigmoid(logits)


def test_outputs_between_0_and_1_after_another_operation_are_values(picture: np.ndarray) -> None:
    model = traced(Complement(), 1.0)
    found = mapped(model, picture, 1)
    assert found.score.startswith("value: ")
    assert "between 0 and 1" in found.score
    sigmoid = mapped(traced(nn.Sigmoid(), 1.0), picture, 1)
    np.testing.assert_allclose(found.values, 1 - sigmoid.values, atol=1e-5)
    assert mapped(model, picture, 1, score=Score("probability")).score.startswith("probability: softmax")
