"""Narrowed networks against the whole networks with zeros in the place of the removed channels."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional

from optimizer.errors import InvalidArgumentError
from udfs.roster import load
from udfs.variants.torch import apply_structure, narrow
from udfs.weights import fit_state_dict

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class Gated(nn.Module):
    """A gate of two linear layers on a convolution, a concatenation, a layer called twice, and a flattened map."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding="same", bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.again = nn.Conv2d(8, 8, 3, padding=1)
        self.squeeze, self.gate = nn.Linear(8, 4), nn.Linear(4, 8)
        self.side = nn.Conv2d(8, 6, 1)
        self.joined = nn.Conv2d(14, 10, 3, dilation=2)
        self.shape = nn.Sequential(nn.PReLU(10), nn.AvgPool2d(2), nn.Flatten())
        self.hidden, self.head = nn.Linear(40, 12), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.stem(x)))
        x = x + self.again(self.again(x))
        x = x * torch.sigmoid(self.gate(self.squeeze(x.mean((2, 3))).relu())).view(x.size(0), -1, 1, 1)
        x = torch.cat([x, torch.relu(self.side(x))], dim=1)
        x = self.shape(self.joined(x))
        return self.head(self.hidden(x).relu())


def weaken(network: nn.Module, head: str, factor: float) -> nn.Module:
    """Multiply the kernels of the second half of each layer's channels; with 0 also their biases and norms."""
    made = copy.deepcopy(network)
    with torch.no_grad():
        for path, layer in made.named_modules():
            if path == head or not isinstance(layer, (nn.Conv2d, nn.Linear, *NORMS)):
                continue
            half = len(layer.weight) // 2
            if not isinstance(layer, NORMS):
                layer.weight[half:] *= factor
            if factor == 0 and isinstance(layer, NORMS):
                layer.weight[half:] = 0
            if factor == 0 and layer.bias is not None:
                layer.bias[half:] = 0
    return made


def with_shifts(network: nn.Module) -> nn.Module:
    """Draw biases and norms, which are 0 and 1 in new networks."""
    torch.manual_seed(0)
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, NORMS):
                layer.weight.uniform_(0.5, 1)
                layer.running_mean.normal_(std=0.1)
                layer.running_var.uniform_(0.5, 1)
            if isinstance(layer, (nn.Conv2d, nn.Linear, *NORMS)) and layer.bias is not None:
                layer.bias.normal_(std=0.1)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "head"),
    [("mobilenet_v2", "classifier.1"), ("resnet18", "fc"), ("squeezenet1_1", "classifier.1"), ("gated", "head")],
)
def test_a_narrow_network_is_the_whole_one_without_its_weak_channels(name: str, head: str) -> None:
    base = with_shifts(Gated() if name == "gated" else load(name))
    torch.manual_seed(1)
    x = torch.randn(2, 3, *(2 * (9,) if name == "gated" else 2 * (64,)))
    weak = weaken(base, head, 1e-3)
    before = copy.deepcopy(weak.state_dict())
    made, structure = narrow(weak, x[:1], 0.5)
    expected = weaken(base, head, 0)(x).detach()
    torch.testing.assert_close(made(x).detach(), expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())
    assert all(torch.equal(tensor, before[key]) for key, tensor in weak.state_dict().items())
    for path, layer in base.named_modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            outputs = len(layer.weight) if path == head else len(layer.weight) // 2
            assert len(made.get_submodule(path).weight) == outputs, path
    again = apply_structure(copy.deepcopy(base).to("meta"), structure)
    fit_state_dict(again, made.state_dict(), name)
    assert torch.equal(again(x), made(x))


def test_a_batch_norm_decides_between_kernels_of_equal_norm() -> None:
    base = nn.Sequential(nn.Conv2d(1, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval()
    with torch.no_grad():
        base[0].weight.fill_(1)
        base[1].weight.copy_(torch.tensor([1.0, 0.1, 1.0, 1.0]))
        base[1].running_var.copy_(torch.tensor([1.0, 1.0, 1.0, 100.0]))
    made, _ = narrow(base, torch.ones(1, 1, 3, 3), 0.5)
    assert torch.equal(made[1].weight, torch.tensor([1.0, 1.0]))
    assert torch.equal(made[1].running_var, torch.tensor([1.0, 1.0]))


class Stated(nn.Module):
    """A forward that states the number of channels."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.conv, self.fc = nn.Conv2d(3, 8, 3), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x).relu()
        return self.fc(x.mean((2, 3)) / (x.shape[1] if self.size == 0 else 1) if self.size < 8 else x.view(-1, 8))


@pytest.mark.parametrize(
    "base",
    [
        nn.Sequential(nn.Conv2d(3, 4, 1)),
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.Softmax(1), nn.Conv2d(4, 2, 1)),
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1, groups=2), nn.Conv2d(4, 2, 1, groups=2)),
        Stated(8),
    ],
    ids=["head", "softmax", "groups", "stated"],
)
def test_networks_without_removable_channels_are_refused(base: nn.Module) -> None:
    with pytest.raises(InvalidArgumentError, match=r"module must have channels that can be removed at width 0\.5"):
        narrow(base.eval(), torch.zeros(1, 3, 3, 3), 0.5)


class Reading(nn.Module):
    """A forward that reads the weight of its first layer, and branches on values if it is told to."""

    def __init__(self, *, branches: bool) -> None:
        super().__init__()
        self.branches = branches
        self.first, self.hidden, self.head = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.branches and x.sum() > 0:
            return x
        return self.head(self.hidden(self.first(x))) + self.first.weight.std()


def test_layers_whose_weight_other_code_reads_stay() -> None:
    x = torch.zeros(1, 3, 4, 4)
    _, structure = narrow(Reading(branches=False), x, 0.5)
    assert [(change.path, change.sizes) for change in structure.changes] == [("hidden", (4, 8, 1)), ("head", (2, 4, 1))]
    with pytest.raises(InvalidArgumentError, match=r"torch\.fx can trace, got Reading: .* need no trace"):
        narrow(Reading(branches=True), x, 0.5)
    with pytest.raises(InvalidArgumentError, match=r"example must be .* got the shape \(1, 4, 4, 4\)"):
        narrow(Reading(branches=False), torch.zeros(1, 4, 4, 4), 0.5)


def test_networks_that_count_their_channels_are_refused() -> None:
    torch.manual_seed(0)
    with pytest.raises(InvalidArgumentError, match="module must compute the same with any number of channels"):
        narrow(Stated(0).eval(), torch.rand(1, 3, 3, 3), 0.5)
    with pytest.raises(InvalidArgumentError, match="width must be above 0 and below 1, got 1"):
        narrow(Stated(1), torch.rand(1, 3, 3, 3), 1)
