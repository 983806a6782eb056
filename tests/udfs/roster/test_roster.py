"""Names, layers and loading."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cards import registered

torch = pytest.importorskip("torch")

from torch import nn

from optimizer.errors import CerebroError, UnknownLayerError
from udfs.images import Preprocessing
from udfs.weights import WeightsError
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError, UnknownModelError, VistaError
from vista_spark.roster import FeatureLayer, ModelCard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Tiny(nn.Module):
    """Defined top first, run bottom first, with a buffer that no state dict holds."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.register_buffer("shift", torch.full((4,), 3.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(torch.flatten(self.body(x), 1) + self.shift)
        return y


TINY = ModelCard(
    name="tiny",
    builder=Tiny,
    preprocessing=Preprocessing(crop=8),
    layers=(FeatureLayer("relu", "body.1"), FeatureLayer("logits", "head")),
    parameters=3 * 4 * 9 + 4 + 4 * 2 + 2,
    reference="none",
)


@pytest.fixture
def tiny() -> Iterator[ModelCard]:
    with registered(TINY) as card:
        yield card


def names(layers: tuple[FeatureLayer, ...]) -> list[str]:
    return [layer.name for layer in layers]


def test_the_roster_is_there_without_torch() -> None:
    code = (
        "import sys; from vista_spark import roster; roster.card('vgg16').resolve(2); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_model_lists_the_models_and_the_nearest() -> None:
    with pytest.raises(
        UnknownModelError, match=r"no model 'resnet52' in the roster; did you mean 'resnet50'\?"
    ) as caught:
        roster.card("resnet52")
    assert all(name in str(caught.value) for name in roster.names())
    assert isinstance(caught.value, VistaError | CerebroError)
    with pytest.raises(UnknownModelError):
        roster.load("ResNet-50")


@pytest.mark.parametrize("name", roster.names())
def test_cards_travel(name: str) -> None:
    card = roster.card(name)
    assert pickle.loads(pickle.dumps(card)) == card  # (what Spark's closures do)
    assert hash(card) == hash(replace(card))
    assert (
        len({layer.name for layer in card.layers}) == len({layer.module for layer in card.layers}) == len(card.layers)
    )


# --- resolve


def test_a_bare_number_counts_from_the_top() -> None:
    card = roster.card("alexnet")
    assert names(card.resolve(1)) == ["fc8"]
    assert names(card.resolve(4)) == ["conv5", "fc6", "fc7", "fc8"]
    assert card.resolve(len(card.layers)) == card.layers


def test_a_number_in_a_list_is_a_place_from_the_top() -> None:
    card = roster.card("resnet50")
    assert names(card.resolve([3])) == ["conv5_3"]
    assert names(card.resolve([1, 3])) == ["conv5_3", "fc6"]


def test_the_order_is_bottom_to_top_and_each_layer_comes_once() -> None:
    card = roster.card("alexnet")
    assert names(card.resolve(["fc7", "conv1", 2, "fc7", "features.11", "conv5"])) == ["conv1", "conv5", "fc7"]
    assert names(card.resolve("fc6")) == ["fc6"]
    assert card.resolve(("fc6",)) == card.resolve("classifier.2") == (FeatureLayer("fc6", "classifier.2"),)


def test_a_module_path_is_a_layer_in_its_place() -> None:
    card = roster.card("alexnet")
    found = card.resolve(["fc8", "features.3", "conv1", "features.10"])
    assert names(found) == ["conv1", "features.3", "features.10", "fc8"]
    assert found[1] == FeatureLayer("features.3", "features.3")


def test_places_follow_the_run_not_the_definition(tiny: ModelCard) -> None:
    assert names(tiny.resolve(["head", "body", "body.0", "relu"])) == ["body.0", "relu", "body", "logits"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("fc9", r"no layer 'fc9' in model 'alexnet'; did you mean 'fc\d'\?; layers: conv1, .*fc8"),
        ("Conv5", r"did you mean 'conv5'\?"),
        ("features.110", r"did you mean 'features.1\d?'\?"),
        (["fc8", "conv55"], r"no layer 'conv55' in model 'alexnet'; did you mean 'conv5'\?"),
        (9, r"no layer '9' in model 'alexnet', which counts 1 to 8 from the top"),
        (0, "no layer '0'"),
        (-9, "no layer '-9'"),
        ([9], "no layer '9'"),
        ([0], "no layer '0'"),
        ("", "no layer ''"),
    ],
)
def test_a_layer_that_is_not_there(wanted: object, message: str) -> None:
    with pytest.raises(UnknownLayerError, match=message):
        roster.card("alexnet").resolve(wanted)  # type: ignore[arg-type]


def test_a_module_that_inference_never_runs_is_no_layer() -> None:
    with pytest.raises(UnknownLayerError, match=r"AuxLogits\.fc"):
        roster.card("inception_v3").resolve("AuxLogits.fc")


@pytest.mark.parametrize("wanted", [[], (), True, [True], None, 1.5, [2.0], {"fc8"}])
def test_what_is_no_layer_at_all(wanted: object) -> None:
    with pytest.raises(InvalidArgumentError, match="layer"):
        roster.card("alexnet").resolve(wanted)  # type: ignore[arg-type]


# --- load


def test_random_weights_are_the_seeds_and_the_generator_is_left_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    one = roster.load("squeezenet1_1", seed=3)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(12)
    same = roster.load("squeezenet1_1", seed=3)
    other = roster.load("squeezenet1_1", seed=4)
    key = "features.0.weight"
    assert all(torch.equal(tensor, same.state_dict()[name]) for name, tensor in one.state_dict().items())
    assert not torch.equal(one.state_dict()[key], other.state_dict()[key])
    assert not torch.equal(one.state_dict()[key], torch.zeros(()))


def test_loading_weights_leaves_the_generator_alone() -> None:
    state = roster.load("squeezenet1_1").state_dict()
    before = torch.random.get_rng_state()
    roster.load("squeezenet1_1", state)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_network_comes_ready_for_inference() -> None:
    for network in (
        roster.load("squeezenet1_1"),
        roster.load("squeezenet1_1", roster.load("squeezenet1_1").state_dict()),
    ):
        assert not any(module.training for module in network.modules())
        assert not any(parameter.requires_grad for parameter in network.parameters())
        assert {parameter.device.type for parameter in network.parameters()} == {"cpu"}


def test_weights_go_through_a_file_and_a_uri(tmp_path: Path) -> None:
    source = roster.load("mobilenet_v2", seed=5)
    path = tmp_path / "weights of mine.pt"
    torch.save({"state_dict": {f"module.{key}": tensor for key, tensor in source.state_dict().items()}}, path)
    batch = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    for place in (path, str(path), path.as_uri()):
        assert torch.equal(roster.load("mobilenet_v2", place)(batch), source(batch))


def test_mapped_weights_stay_mapped(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save(roster.load("squeezenet1_1").state_dict(), path)
    network = roster.load("squeezenet1_1", path)
    spans = []
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123  (a pseudo-file)
        for line in maps:
            if str(path) in line:
                start, end = line.split()[0].split("-")
                spans.append((int(start, 16), int(end, 16)))
    for key, parameter in network.named_parameters():
        assert any(start <= parameter.data_ptr() < end for start, end in spans), key


def test_weights_that_do_not_fit_name_every_kind_of_fault() -> None:
    state = dict(roster.load("squeezenet1_1").state_dict())
    del state["features.3.squeeze.bias"]
    state["classifier.9.weight"] = torch.zeros(1)
    state["classifier.1.weight"] = torch.zeros(10, 512, 1, 1)
    with pytest.raises(WeightsError) as caught:
        roster.load("squeezenet1_1", state)
    message = str(caught.value)
    assert "do not fit squeezenet1_1 (52 keys)" in message
    assert "1 missing: features.3.squeeze.bias;" in message
    assert "1 unexpected: classifier.9.weight;" in message
    assert "1 of another shape: classifier.1.weight is (10, 512, 1, 1) where the model has (1000, 512, 1, 1)" in message


def test_another_networks_weights_give_a_message_that_can_be_read() -> None:
    with pytest.raises(WeightsError, match=r"52 missing: .* and 44 more; \d+ unexpected: .* and \d+ more") as caught:
        roster.load("squeezenet1_1", roster.card("resnet50").skeleton().state_dict())
    assert len(str(caught.value)) < 1000


def test_old_weights_without_batch_counters_fit() -> None:
    source = roster.load("resnet18")
    state = {key: tensor for key, tensor in source.state_dict().items() if not key.endswith("num_batches_tracked")}
    assert len(state) == len(source.state_dict()) - 20
    batch = torch.ones(1, 3, 224, 224)
    assert torch.equal(roster.load("resnet18", state)(batch), source(batch))


def test_half_precision_weights_become_the_networks_own() -> None:
    state = {key: tensor.half() for key, tensor in roster.load("squeezenet1_1").state_dict().items()}
    network = roster.load("squeezenet1_1", state)
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    assert torch.equal(network.state_dict()["features.0.weight"], state["features.0.weight"].float())


# --- models of one's own


def test_a_model_of_ones_own(tiny: ModelCard) -> None:
    assert roster.names()[-1] == "tiny"
    assert roster.card("tiny") is tiny
    source = roster.load("tiny", seed=1)
    batch = torch.rand(2, 3, 8, 8)
    assert torch.equal(roster.load("tiny", seed=1)(batch), source(batch))
    assert torch.equal(roster.load(tiny, source.state_dict())(batch), source(batch)), "the unsaved buffer has its value"
    with pytest.raises(InvalidArgumentError, match="overwrite=True"):
        roster.register(tiny)
    roster.register(replace(tiny, reference="other"), overwrite=True)
    assert roster.card("tiny").reference == "other"


def test_unregister() -> None:
    with pytest.raises(UnknownModelError):
        roster.unregister("vgg16")
    original = roster.card("vgg16")
    with pytest.raises(InvalidArgumentError, match="vgg16"):
        roster.register(original)
    roster.register(replace(original, reference="mine"), overwrite=True)
    assert roster.card("vgg16").reference == "mine"
    roster.unregister("vgg16")
    assert roster.card("vgg16") == original


def test_a_card_that_contradicts_its_network() -> None:
    with pytest.raises(
        UnknownLayerError, match=r"no layer 'body.7' in the network of model 'tiny'.*did you mean 'body"
    ):
        roster.register(replace(TINY, layers=(FeatureLayer("seven", "body.7"),)))
    with pytest.raises(InvalidArgumentError, match="has 122 parameters, its card says 7"):
        roster.register(replace(TINY, parameters=7))
    assert "tiny" not in roster.names()
