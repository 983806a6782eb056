"""Networks with fewer blocks and larger strides, against blocks and strides changed by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn

from optimizer.errors import InvalidArgumentError
from udfs.roster import load
from udfs.variants.torch import coarsen, shorten


class Residual(nn.Module):
    """A residual block with a gain."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.conv.weight.data *= gain
        self.conv.bias.data *= gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x)


def test_blocks_that_change_least_are_removed() -> None:
    torch.manual_seed(0)
    blocks = [Residual(gain) for gain in (1, 0.01, 1, 0.001)]
    base = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(*blocks), nn.Flatten(), nn.Linear(36, 36))
    x = torch.randn(2, 3, 5, 5)
    made, structure = shorten(base, x, 2)
    assert [change.path for change in structure.changes] == ["1.3", "1.1"]
    expected = base[3](base[2](blocks[2](blocks[0](base[0](x)))))
    assert torch.equal(made(x), expected)
    assert base[1][3] is blocks[3]
    with pytest.raises(InvalidArgumentError, match="blocks must be at most 4"):
        shorten(base, x, 5)


def test_layers_are_removed_where_there_are_no_blocks_but_not_the_head() -> None:
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    _, structure = shorten(base, torch.randn(2, 3), 1)
    assert structure.changes[0].path == "2"
    with pytest.raises(InvalidArgumentError, match="blocks must be at most 1"):
        shorten(base, torch.randn(2, 3), 2)


def test_residual_blocks_of_the_roster() -> None:
    base = load("mobilenet_v2")
    x = torch.randn(1, 3, 64, 64)
    made, structure = shorten(base, x, 2)
    shapes = {3, 5, 6, 8, 9, 10, 12, 13, 15, 16}
    assert {change.path for change in structure.changes} <= {f"features.{n}" for n in shapes} | {"features.1.conv.0"}
    assert made(x).shape == (1, 1000)


def test_strides_grow_in_the_first_convolutions() -> None:
    torch.manual_seed(0)
    base = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    x = torch.randn(2, 3, 16, 16)
    made, structure = coarsen(base, x, 6)
    assert [(change.path, change.sizes) for change in structure.changes] == [("0", (3, 3)), ("2", (2, 2))]
    hidden = nn.functional.conv2d(x, base[0].weight, base[0].bias, stride=3, padding=1).relu()
    expected = nn.functional.conv2d(hidden, base[2].weight, base[2].bias, stride=2, padding=1).mean((2, 3))
    torch.testing.assert_close(made(x), expected)
    assert base[0].stride == (1, 1)


class Skip(nn.Module):
    """A sum that passes for a broadcast on a map of one element."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.conv(x)).mean((2, 3))


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 14 * 14, 2)), "mat1 and mat2"),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), "output has the shape"),
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1)), "kernels of its convolutions are smaller"),
        (Skip(), "must match the size"),
    ],
)
def test_networks_of_fixed_sizes_are_refused(base: nn.Module, reason: str) -> None:
    x = torch.zeros(1, 3, *(2 * (2 if isinstance(base, Skip) else 16,)))
    with pytest.raises(InvalidArgumentError, match=f"factor must be .* got 2: .*{reason}"):
        coarsen(base, x, 2)
    with pytest.raises(InvalidArgumentError, match="factor must be a whole number of at least 2, got 1"):
        coarsen(base, x, 1)
