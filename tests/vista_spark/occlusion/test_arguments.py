"""Arguments of explanations: accepted as numpy and torch give them, or refused before anything is computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from optimizer.occlusion import PatchError
from udfs.images import Preprocessing
from udfs.incremental import IncrementalNetwork
from vista_spark import explain_image, explain_image_sizes, explain_image_targets, explain_tensor, roster
from vista_spark.errors import InvalidArgumentError

SIDE = 16


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).eval()


CARD = roster.ModelCard("small", small, Preprocessing(SIDE), (roster.FeatureLayer("fc", "4"),), 1000, "none")
PICTURE = np.random.default_rng(0).normal(size=(3, SIDE, SIDE)).astype(np.float32)
SQUARE: dict[str, Any] = {"patch_size": 4, "stride": 4}


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise AssertionError("the network ran")

    monkeypatch.setattr(IncrementalNetwork, "materialise", run)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": -3}, "batch_size must be at least 1, got -3"),
        ({"batch_size": 2.5}, "batch_size must be an integer, got 2.5"),
        ({"patch_size": "cat"}, "patch_size must be an integer, got 'cat'"),
        ({"stride": True}, "stride must be an integer, got True"),
        ({"target": "cat"}, "target must be an integer, got 'cat'"),
        ({"target": 1.0}, "target must be an integer, got 1.0"),
        ({"target": True}, "target must be an integer, got True"),
        ({"image_size": "cat"}, "image_size must be an integer, got 'cat'"),
        ({"patch_color": (1.5, 2, 3)}, "patch_color must be an integer, got 1.5"),
        ({"patch_color": 7}, "patch_color must be a sequence of integers, got 7"),
        ({"region": ((0, 8), (0, 8.5))}, "region must be an integer, got 8.5"),
        ({"region": (0, 8, 0, 8)}, "for each of 2 axes, such as ((0, 8), (0, 8)), got (0, 8, 0, 8)"),
        ({"region": ((0, 8),)}, "region must be a pair of start and end for each of 2 axes"),
        ({"region": 8}, "region must be a pair of start and end for each of 2 axes"),
        ({"patch_size": 0}, "patch_size must be at least 1, got 0"),
        ({"stride": 0}, "stride must be at least 1, got 0"),
        ({"seed": None}, "seed must be an integer, got None"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"on_update": 3}, "on_update must be a function of the heat map, such as print, got 3"),
        ({"on_estimate": "print"}, "on_estimate must be a function of seconds, such as print, got 'print'"),
        ({"on_progress": 3}, "on_progress must be a function of a vista_spark.Progress"),
        ({"image": PICTURE[None]}, "an array of shape (1, 3, 16, 16), whose first axis is one of records"),
        ({"image": [[[0.0]], [[0.0, 1.0]]]}, "nested lists of numbers of equal lengths"),
        ({"tau": 0.5}, 'tau must be left out of mode="exact", got 0.5; set mode="approximate"'),
        ({"mode": "naive", "precision": "bfloat16"}, "precision must be left out of mode"),
        ({"target_speedup": 2}, "target_speedup must be left out of mode"),
        ({"drill_down_fraction": 0.1}, "drill_down_fraction must be left out of mode"),
        ({"mode": "approximate", "tau": "much"}, "tau must be a finite number, got 'much'"),
        ({"mode": "approximate", "tau": float("nan")}, "tau must be a finite number, got nan"),
        ({"mode": "approximate", "verify": 3}, "verify must be 0 or left out in the approximate mode, got 3"),
        ({"verify": -1}, "verify must be at least 0, got -1"),
        ({"output": "logits"}, "got 'logits'; did you mean 'logit'"),
        ({"head": "boxes"}, "head must be left out for a network that returns one tensor, got 'boxes'"),
        ({"head": 1.5}, "head must be an integer, got 1.5"),
    ],
)
def test_a_wrong_argument_of_an_image_is_refused_before_the_network_runs(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        explain_image(**{"image": PICTURE, "model": CARD} | SQUARE | settings)
    assert said in str(raised.value)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"value": 1.0}, "value must be left out unless perturbation=\"color\", got 1.0 with 'mean'"),
        ({"perturbation": "color", "value": "grey"}, "value must be a finite number, got 'grey'"),
        ({"perturbation": "color", "value": True}, "value must be a finite number, got True"),
        ({"tau": 0.5}, "tau must be left out of mode"),
        ({"patch": 4.0}, "patch must be an integer, got 4.0"),
        ({"patch": 0}, "patch must be at least 1, got 0"),
        ({"stride": (4, 0)}, "stride must be at least 1, got 0"),
        ({"region": [(0, 8)]}, "region must be a pair of start and end for each of 2 axes"),
        ({"region": 3}, "region must be a pair of start and end for each of 2 axes"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"on_update": 3}, "on_update must be a function of the heat map"),
        ({"inputs": PICTURE[None]}, "got shape (1, 3, 16, 16), whose first axis is one of records"),
        ({"inputs": np.stack([PICTURE] * 5)}, "inputs must be one record"),
        ({"inputs": PICTURE.tolist()}, "inputs must be an array or a list of arrays, got a list"),
        ({"inputs": []}, "inputs must have an array for each input of the network, got []"),
        ({"target_ssim": 0.9}, "target_ssim must be left out of mode"),
        ({"mode": "approximate", "target_ssim": 0.9, "tau": 0.5}, "target_ssim=0.9 and tau=0.5"),
        ({"stride": "cat"}, "stride must be an integer, got 'cat'"),
        ({"of": True}, "of must be an integer, got True"),
        ({"inputs": np.full_like(PICTURE, np.nan)}, "input 0 must be finite, got 768 NaN or infinite elements"),
        ({"network": lambda tensor: tensor}, "a model of a registered framework, got a function"),
    ],
)
def test_a_wrong_argument_of_a_tensor_is_refused_before_the_network_runs(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        explain_tensor(**{"network": small(), "inputs": PICTURE, "patch": 4, "stride": 4} | settings)
    assert said in str(raised.value)


def test_numbers_of_numpy_and_tensors_of_torch_are_taken() -> None:
    plain = explain_image(PICTURE, CARD, target=2, **SQUARE)
    sizes = {name: np.int64(extent) for name, extent in SQUARE.items()}
    given = explain_image(
        torch.from_numpy(PICTURE).requires_grad_(), CARD, target=np.int32(2), batch_size=np.int64(3), **sizes
    )
    np.testing.assert_allclose(given.heat_map, plain.heat_map, atol=1e-6)
    rough = explain_image(
        PICTURE, CARD, mode="approximate", tau=np.float32(0.5), target_speedup=np.float64(1), **SQUARE
    )
    assert rough.mode == "approximate"
    by_tensor = explain_tensor(
        small(), torch.from_numpy(PICTURE).requires_grad_(), patch=np.int64(4), stride=(4, np.int16(4)), target=2,
        perturbation="color", value=np.float32(0.5),
    )  # fmt: skip
    by_array = explain_tensor(
        small(), [PICTURE], patch=4, stride=4, target=2, perturbation="color", value=[0.5, 0.5, 0.5]
    )
    np.testing.assert_allclose(by_tensor.heat_map, by_array.heat_map, atol=1e-6)
    listed = explain_image(PICTURE.tolist(), CARD, target=2, **SQUARE)
    np.testing.assert_allclose(listed.heat_map, plain.heat_map, atol=1e-6)
    rounded = explain_image(torch.from_numpy(PICTURE).bfloat16(), CARD, target=2, **SQUARE)
    np.testing.assert_allclose(rounded.heat_map, plain.heat_map, atol=1e-2)


def test_a_first_axis_of_one_may_be_a_channel() -> None:
    """A grey picture and a grey volume have it, and a wrong argument beside it keeps its own message."""
    torch.manual_seed(0)
    grey = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 5)).eval()
    assert explain_tensor(grey, PICTURE[:1], patch=4, stride=4).heat_map.shape == (4, 4)
    with pytest.raises(InvalidArgumentError, match=r"mode must be one of .* got 'exat'"):
        explain_tensor(grey, PICTURE[:1], patch=4, stride=4, mode="exat")
    with pytest.raises(PatchError, match=r"patch on axis 0 must fit into .* got 17"):
        explain_tensor(grey, PICTURE[:1], patch=17, stride=4)


@pytest.mark.parametrize("place", [(4, 0), (0, 4), (-1, 0), (0, -1), (0, 1.5)])
def test_a_place_that_the_heat_map_does_not_have_covers_nothing(place: tuple[Any, Any]) -> None:
    explanation = explain_image(PICTURE, CARD, **SQUARE)
    assert explanation.covered(3, np.int64(1)) == ((12, 16), (4, 8))
    with pytest.raises(InvalidArgumentError, match=r"below 4|at least 0|an integer"):
        explanation.covered(*place)


def test_an_explanation_says_its_score_and_what_was_verified() -> None:
    said = explain_image(PICTURE, CARD, **SQUARE).explain()
    assert "probability: softmax over the 5 outputs of '4'" in said
    assert "1 place verified by the whole network; largest difference" in said
    assert "computed in parts up to and including '2' (AdaptiveAvgPool2d), and in full after it" in said
    assert "theoretical speed-up of a place over naive" in said
    assert "with a patch of 4 x 4 at one of 4 x 4 places" in said
    naive = explain_image(PICTURE, CARD, mode="naive", **SQUARE)
    assert naive.theoretical_speedup == 1
    assert "speed-up" not in naive.explain(), "the naive way is what others are compared with"
    odds = explain_image(PICTURE, CARD, output="log_odds", head=None, verify=0, **SQUARE)
    assert odds.score.startswith("log_odds")
    assert "verified" not in odds.explain()
    called = explain_image(PICTURE, CARD, output=lambda outputs: outputs[:, 0] - outputs[:, 1], **SQUARE)
    assert called.explain().startswith("element 0 with callable")


def test_an_explanation_says_that_it_shows_nothing() -> None:
    flat = small()
    flat[4].weight.data.zero_()
    said = explain_tensor(flat, PICTURE, patch=4, stride=4).explain()
    assert "flat: no place changes its probability of 0." in said
    assert "RANDOM" not in said
    bumpy = explain_image(PICTURE, CARD, **SQUARE)
    assert "flat" not in bumpy.explain()
    drawn = replace(bumpy, has_random_weights=True).explain()
    assert drawn == f"RANDOM WEIGHTS: this heat map says nothing about the image\n{bumpy.explain()}"
    nothing = replace(bumpy, heat_map=np.full_like(bumpy.heat_map, np.nan)).explain()
    assert "flat" not in nothing
    assert "lowest" not in nothing


def test_a_hook_is_named_as_the_end_of_the_incremental_part() -> None:
    hooked = small()
    hooked[1].register_forward_hook(lambda _module, _inputs, output: output * 1.0)
    said = explain_tensor(hooked, PICTURE, patch=4, stride=4).explain()
    assert "computed in parts up to '1' (ReLU, which has a hook), and in full from there on" in said


def test_several_targets_and_sizes_take_the_same_options() -> None:
    seen: list[np.ndarray] = []
    largest = explain_image_targets(PICTURE, CARD, top=3, on_update=seen.append, **SQUARE)
    assert largest[0].target == largest[0].predicted
    assert [each.probability for each in largest] == sorted((each.probability for each in largest), reverse=True)
    assert seen[-1].shape == (3, *largest[0].heat_map.shape)
    for each in largest:
        alone = explain_image(PICTURE, CARD, target=each.target, **SQUARE)
        np.testing.assert_allclose(each.heat_map, alone.heat_map, atol=1e-6)
    chosen = explain_image_targets(PICTURE, CARD, targets=(4, 0), output="value", **SQUARE)
    assert [each.target for each in chosen] == [4, 0]
    assert all(each.score.startswith("value") for each in chosen)
    (small_patch,) = explain_image_sizes(PICTURE, CARD, patch_sizes=[4], stride=4, output="value", target=4)
    np.testing.assert_allclose(small_patch.heat_map, chosen[0].heat_map, atol=1e-6)
    with pytest.raises(InvalidArgumentError, match="target must be from 0 to 4, got 5"):
        explain_image_targets(PICTURE, CARD, targets=[5], **SQUARE)
    with pytest.raises(InvalidArgumentError, match=r"targets=\(1, 2\) and top=3 exclude each other: .* leave one out"):
        explain_image_targets(PICTURE, CARD, targets=(1, 2), top=3, **SQUARE)
    assert len(explain_image_targets(PICTURE, CARD, **SQUARE)) == 5
    with pytest.raises(InvalidArgumentError, match="targets must have at least one"):
        explain_image_targets(PICTURE, CARD, targets=[], **SQUARE)
    with pytest.raises(TypeError, match="has no parameter 'perturbatoin'; did you mean 'perturbation'"):
        explain_image_sizes(PICTURE, CARD, perturbatoin="blur")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no parameter 'patch_size'; did you mean 'patch_sizes'"):
        explain_image_sizes(PICTURE, CARD, patch_size=4)


def test_a_network_of_keras_is_explained_exactly_and_says_that_it_is_computed_in_full() -> None:
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    series = keras.Input((20, 3))
    beside = keras.Input((4,))
    seen = keras.layers.GlobalAveragePooling1D()(keras.layers.Conv1D(5, 3, activation="relu")(series))
    joined = keras.layers.Concatenate()([seen, beside])
    network = keras.Model([series, beside], keras.layers.Dense(3, activation="softmax")(joined))
    draw = np.random.default_rng(0)
    window, other = draw.normal(size=(20, 3)).astype(np.float32), draw.normal(size=4).astype(np.float32)
    explained = explain_tensor(network, [window, other], patch=4, stride=2, perturbation="color", value=[0, 1, 2])
    assert explained.heat_map.shape == (9,)
    assert "computed in full: keras networks are not run in parts" in explained.explain()
    assert explained.score.startswith("probability: the 3 outputs of")
    for place in range(9):
        laid = window.copy()
        laid[2 * place : 2 * place + 4] = [0, 1, 2]
        expected = network.predict([laid[None], other[None]], verbose=0)[0, explained.target]
        assert explained.heat_map[place] == pytest.approx(float(expected), abs=1e-6)
    assert explained.tensor.shape == (3, 20), "channels first for the picture"
    with pytest.raises(InvalidArgumentError, match=r"for a keras network, got .approximate."):
        explain_tensor(network, [window, other], patch=4, stride=2, mode="approximate")


def test_a_nested_output_is_chosen_by_its_path() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below = small()

        def forward(self, image: torch.Tensor) -> dict[str, Any]:
            classes = self.below(image)
            return {"scene": {"classes": classes}, "twice": (classes, 2 * classes)}

    for head, factor in (("scene.classes", 1), ("twice.1", 2)):
        nested = explain_tensor(Nested().eval(), PICTURE, patch=4, stride=4, head=head, output="value")
        plain = explain_tensor(small(), PICTURE, patch=4, stride=4, output="value")
        np.testing.assert_allclose(nested.heat_map, factor * plain.heat_map, atol=1e-6)
    with pytest.raises(InvalidArgumentError, match=r"one of 'scene.classes', 'twice.0', 'twice.1'"):
        explain_tensor(Nested().eval(), PICTURE, patch=4, stride=4)


def test_a_network_of_several_outputs_asks_which_one() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.below, self.classes, self.boxes = nn.Conv2d(3, 4, 3), nn.Linear(4, 3), nn.Linear(4, 4)

        def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
            seen = self.below(image).relu().mean((2, 3))
            return {"classes": self.classes(seen), "boxes": self.boxes(seen).relu()}

    common: dict[str, Any] = {"patch": 4, "stride": 4}
    with pytest.raises(InvalidArgumentError, match="head must be one of 'classes', 'boxes'"):
        explain_tensor(Heads().eval(), PICTURE, **common)
    with pytest.raises(InvalidArgumentError, match="got 'boxs'; did you mean 'boxes'"):
        explain_tensor(Heads().eval(), PICTURE, head="boxs", **common)
    named = explain_tensor(Heads().eval(), PICTURE, head="boxes", **common)
    at = explain_tensor(Heads().eval(), PICTURE, head=np.int64(1), **common)
    np.testing.assert_array_equal(named.heat_map, at.heat_map)
    assert named.score.startswith("value: the 4 outputs of")
    assert named.verified == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_network_that_torch_exports_gives_no_warning_of_torchs_own(precision: str) -> None:
    class Exported(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.below, self.above = nn.Conv2d(3, 4, 3), nn.Linear(4 * 14 * 14, 3)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            seen = self.below(image).relu()
            seen += 1  # which torch.fx alone does not follow
            return self.above(nn.functional.normalize(seen.flatten(1)))

    settings: dict[str, Any] = {"mode": "approximate", "precision": precision} if precision == "bfloat16" else {}
    assert explain_tensor(Exported().eval(), PICTURE, patch=4, stride=4, **settings).heat_map.shape == (4, 4)
