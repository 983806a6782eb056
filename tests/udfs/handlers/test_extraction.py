"""Smaller networks cut from a larger one at chosen layers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn

from optimizer.errors import UnknownLayerError
from udfs.handlers import TensorSpec, UntraceableModelError
from udfs.handlers.torch import Extraction
from vista_spark import roster


class Functional(nn.Module):
    """Dropout as a function: the graph of one mode lacks it."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.above = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.dropout(self.below(x), 0.5, self.training)
        out: torch.Tensor = self.above(hidden)
        return out


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(x)
        out: torch.Tensor = self.head(states[:, -1])
        return out


def test_a_cut_network_has_the_layers_below_it_alone() -> None:
    net = roster.load("resnet18")
    x = torch.randn(2, 3, 32, 32)
    opened = Extraction(net)
    low, high = opened.network(["layer1.1", "layer2.0"])(x)
    with torch.no_grad():
        stem = net.maxpool(net.relu(net.bn1(net.conv1(x))))
        expected = net.layer1(stem)
        # An in-place ReLU follows: it must not overwrite what is taken before.
        assert torch.equal(low, expected)
        assert torch.equal(high, net.layer2[0](expected))
    cut = opened.network(["layer1.1"])
    assert {name.partition(".")[0] for name, _ in cut.named_parameters()} == {"conv1", "bn1", "layer1"}
    mine = cut.get_parameter("conv1.weight")
    assert mine.data_ptr() == net.conv1.weight.data_ptr()
    assert mine is not net.conv1.weight


def test_a_tensor_before_an_in_place_operation_is_taken_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True)).eval()
    x = torch.randn(5, 3)
    before, after = Extraction(net).network(["0", "1"])(x)
    assert float(before.detach().min()) < 0 <= float(after.detach().min())


def test_the_place_of_a_head() -> None:
    assert Extraction(roster.load("resnet18")).below_classifier == "flatten"
    assert Extraction(roster.load("mobilenet_v2")).below_classifier == "classifier.0"
    assert Extraction(nn.Sequential(nn.Linear(2, 2), nn.Conv1d(2, 2, 1))).below_classifier == "1"


def test_widths() -> None:
    opened = Extraction(roster.load("resnet18"))
    assert opened.width("layer3.1") == (256, True)
    with pytest.raises(UntraceableModelError, match="do not say how wide layer 'flatten'"):
        opened.width("flatten")
    told = Extraction(roster.load("resnet18"), [TensorSpec((3, 32, 32))])
    assert (told.width("flatten"), told.width("layer3.1")) == ((512, False), (256, True))
    encoder = Extraction(roster.load("minilm_l6"))
    assert encoder.width("encoder.layer.2") == encoder.width("embeddings") == (384, False)


def test_functional_dropout_is_seen() -> None:
    opened = Extraction(Functional())
    assert opened.draws_by_itself([""])
    assert not Extraction(nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.BatchNorm1d(2))).draws_by_itself([""])


def test_a_recurrent_layer_is_its_first_tensor() -> None:
    net = Recurrent().eval()
    x = torch.randn(2, 5, 3)
    (states,) = Extraction(net).network(["lstm"])(x)
    assert torch.equal(states, net.lstm(x)[0])


def test_errors() -> None:
    with pytest.raises(UnknownLayerError, match=r"did you mean 'layer4.1'"):
        Extraction(roster.load("resnet18")).network(["layer4.7"])

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(UntraceableModelError, match=r"cannot be opened by torch.fx .*TensorSpec"):
        Extraction(Branches())
