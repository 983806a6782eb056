"""Factorised and stored networks restored from plain data, against numpy and the networks themselves."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import load_file, save_file
from torch import nn

from optimizer.errors import InvalidArgumentError, UnknownLayerError
from udfs.handlers import framework
from udfs.images import Preprocessing
from udfs.roster import ModelCard, VariantBuilder, load, of
from udfs.variants import LayerChange, Structure
from udfs.variants.torch import apply_structure, factorize, replace_head, store
from udfs.weights import fit_state_dict

if TYPE_CHECKING:
    from pathlib import Path


def as_json(structure: Structure) -> Structure:
    return Structure(**json.loads(json.dumps(dataclasses.asdict(structure))))


def restored(base: nn.Module, variant: nn.Module, structure: Structure) -> nn.Module:
    """Rebuild on the meta device and load the variant's state dict."""
    made = apply_structure(base.to("meta"), as_json(structure))
    fit_state_dict(made, variant.state_dict(), "variant")
    return made.eval()


class Shared(nn.Module):
    """A layer called twice, a layer under two names, tied weights, a list of layers, and a norm without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding="same", dilation=2, bias=False)
        self.norm = nn.BatchNorm2d(16, affine=False)
        self.steps = nn.ModuleList([nn.Conv2d(16, 16, 3, padding=1) for _ in range(2)])
        self.alias = self.steps[0]
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).relu()
        for step in (*self.steps, self.alias):
            x = step(x)
        return self.head(self.second(self.first(x.mean((2, 3)))))


def test_a_factored_linear_layer_is_the_best_approximation_of_its_rank() -> None:
    torch.manual_seed(0)
    for shape in ((40, 24), (24, 40)):
        base = nn.Sequential(nn.Linear(*shape))
        made, structure = factorize(base, 0.25)
        assert structure.changes == (LayerChange("0", "bottleneck", (6,)),)
        u, s, v = np.linalg.svd(base[0].weight.detach().numpy())
        best = (u[:, :6] * s[:6]) @ v[:6]
        np.testing.assert_allclose((made[0][1].weight @ made[0][0].weight).detach().numpy(), best, atol=1e-5)
        assert torch.equal(made[0][1].bias, base[0].bias)


@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1, "stride": 2},
        {"padding": "same", "dilation": 2},
        {"padding": (2, 1), "padding_mode": "reflect", "bias": False},
    ],
)
def test_convolutions_of_low_rank_are_factored_without_error(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 8, 11, 13)
    mixed, apart = nn.Conv2d(8, 16, 3, **options), nn.Conv2d(8, 16, 3, **options)
    with torch.no_grad():
        mixed.weight.copy_((torch.randn(16, 2) @ torch.randn(2, 72)).reshape(16, 8, 3, 3))
        apart.weight.copy_(torch.einsum("ria,orb->oiab", torch.randn(2, 8, 3), torch.randn(16, 2, 3)))
    for layer, kind in ((mixed, "bottleneck"), (apart, "separable")):
        # The 1x1 pair of rank 6 and the separable one of rank 2 lose nothing of a separable kernel.
        made, structure = factorize(layer, 2 / 16 if kind == "bottleneck" else 6 / 16)
        assert [(change.kind, change.sizes) for change in structure.changes] == [(kind, (2,))]
        torch.testing.assert_close(made(x), layer(x), rtol=1e-4, atol=1e-4)
        fresh = nn.Conv2d(8, 16, 3, **options)
        assert torch.equal(restored(fresh, made, structure)(x), made(x))


def test_an_example_makes_the_error_of_the_outputs_least() -> None:
    torch.manual_seed(0)
    base = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.Flatten(), nn.Linear(12, 3))
    base[0].bias.data += 5  # biases stay, so they must not count as responses
    x = torch.randn(64, 4, 5, 5) * torch.tensor([1, 10, 0.1, 1]).reshape(1, 4, 1, 1)
    made, structure = factorize(base, 0.25, x)
    assert [(change.path, change.sizes) for change in structure.changes] == [("0", (2,)), ("2", (3,)), ("4", (1,))]
    with torch.no_grad():
        inputs = nn.functional.unfold(x, 3).movedim(1, 2).flatten(0, 1).double().numpy()
        weight = base[0].weight.flatten(1).double().numpy()
        pair = (made[0][1].weight.flatten(1) @ made[0][0].weight.flatten(1)).double().numpy()
        assert torch.equal(made[0][1].bias, base[0].bias)
    u, s, v = np.linalg.svd(inputs @ weight.T, full_matrices=False)
    best = np.linalg.norm((u[:, :2] * s[:2]) @ v[:2] - inputs @ weight.T)
    np.testing.assert_allclose(np.linalg.norm(inputs @ (pair - weight).T), best, rtol=1e-4)


def test_layers_stay_where_a_pair_has_no_fewer_weights() -> None:
    base = nn.Sequential(nn.Linear(8, 8), nn.Conv2d(8, 8, 3, groups=8), nn.Linear(64, 64))
    made, structure = factorize(base, 0.5)  # 64 weights in each form
    assert structure.changes == ()
    assert made.state_dict().keys() == base.state_dict().keys()
    assert made[0] is not base[0]


def test_a_large_linear_layer_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = store(nn.Sequential(nn.Linear(9, 7)), 8)
    x = torch.randn(2, 3, 9)
    whole = made(x)
    monkeypatch.setattr("udfs.variants.torch._storage._PART_BYTES", 3 * 4 * 9)  # parts of 3, 3 and 1 outputs
    torch.testing.assert_close(made(x), whole)


@pytest.mark.parametrize(("bits", "error"), [(8, 1 / 254), (16, 2**-11)])
def test_stored_weights_differ_by_half_a_step(bits: int, error: float) -> None:
    torch.manual_seed(0)
    base = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(45, 4, bias=False)).eval()
    with torch.no_grad():
        base[0].weight[1] = 0
        base[0].weight[2] *= 1e6
        base[2].weight[0] *= 1e-9
    made, structure = store(base, bits)
    for place in (0, 2):
        weight, near = base[place].weight.detach(), made[place].weight
        largest = weight.abs().flatten(1).amax(1).reshape(-1, *(1,) * (weight.dim() - 1))
        assert bool(((near - weight).abs() <= largest * error * 1.001).all())
        assert made[place].stored.nbytes == weight.nbytes * bits // 32
    x = torch.randn(2, 3, 5, 5)
    fresh = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(45, 4, bias=False))
    assert torch.equal(restored(fresh, made, structure)(x), made(x))


def test_shared_and_tied_layers() -> None:
    torch.manual_seed(0)
    base = Shared().eval()
    before = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    x = torch.randn(2, 3, 9, 9)
    made, structure = factorize(base, 0.25)
    assert {change.path for change in structure.changes} >= {"conv", "steps.0", "steps.1"}
    assert not {"first", "second"} & {change.path for change in structure.changes}  # tied
    assert made.alias is made.steps[0]
    small, stored = store(made, 8)
    assert torch.equal(restored(Shared(), small, structure + stored)(x), small.eval()(x))
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())


class Mixed(nn.Module):
    """Layers whose weights other code reads, a hook or a parametrization computes."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.conv, self.read = nn.Conv1d(16, 16, 3, padding=1), nn.Linear(16, 16)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(16, 16))
        self.hooked, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
        self.hooked.register_forward_hook(lambda _layer, _inputs, output: output * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.attention(x, x, x)[0].transpose(1, 2)).mean(2)
        return self.head(self.hooked(self.normed(nn.functional.linear(x, self.read.weight))))


def test_layers_that_do_more_than_their_class_stay() -> None:
    torch.manual_seed(0)
    base = Mixed().eval()
    x = torch.randn(2, 5, 16)
    made, structure = factorize(base, 0.25)
    assert [change.path for change in structure.changes] == ["head"]
    assert made(x).shape == (2, 4)
    small, structure = store(base, 16)
    assert {change.path for change in structure.changes} == {"conv", "read", "head"}
    torch.testing.assert_close(small(x), base(x), rtol=0.01, atol=0.01)


def test_a_variant_of_the_roster_is_restored_by_its_card(tmp_path: Path) -> None:
    base, head = replace_head(load("squeezenet1_1"), 5)
    made, factored = factorize(base, 0.5)
    made, stored = store(made, 8)
    save_file(made.state_dict(), tmp_path / "variant.safetensors")
    builder = VariantBuilder("squeezenet1_1", as_json(head + factored + stored))
    assert VariantBuilder(**json.loads(json.dumps(dataclasses.asdict(builder)))) == builder
    assert hash(builder)
    entry = of(
        ModelCard(
            name="variant",
            builder=builder,
            preprocessing=Preprocessing(crop=64, resize=72),
            weights=str(tmp_path / "variant.safetensors"),
        )
    )
    network = load(entry)
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(network(x), made.eval()(x))
    backend = framework("torch")
    graph = backend.trace(network, entry.preprocessing.inputs).graph
    tensors = load_file(tmp_path / "variant.safetensors")
    assert sum(layer.param_bytes for layer in graph.layers) == sum(tensor.nbytes for tensor in tensors.values())
    full = backend.trace(base.eval(), entry.preprocessing.inputs).graph
    assert sum(layer.flops for layer in graph.layers) < sum(layer.flops for layer in full.layers)
    records = np.random.default_rng(0).normal(size=(2, 3, 64, 64)).astype("float32")
    exported = torch.export.export(network, (torch.from_numpy(records),)).module()
    torch.testing.assert_close(exported(torch.from_numpy(records)), network(torch.from_numpy(records)))


def test_wrong_arguments_name_what_is_wrong() -> None:
    base = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(InvalidArgumentError, match="keep must be a number above 0 and at most 1, got 0"):
        factorize(base, 0)
    with pytest.raises(InvalidArgumentError, match="bits must be 8 or 16, got 4"):
        store(base, 4)
    with pytest.raises(InvalidArgumentError, match="'_2' as last layer"):
        replace_head(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.BatchNorm1d(2)), 3)
    with pytest.raises(UnknownLayerError, match="'missing'"):
        apply_structure(base, Structure((LayerChange("missing", "removed"),)))
    with pytest.raises(InvalidArgumentError, match="layer at '1' that can be stored, got BatchNorm2d"):
        apply_structure(base, Structure((LayerChange("1", "stored", (8,)),)))
    with pytest.raises(InvalidArgumentError, match="sizes of a stored layer must be 1 positive integers"):
        LayerChange("1", "stored")
    with torch.no_grad():
        base[0].weight[0] = torch.nan
    for transform in (lambda: factorize(base, 0.5), lambda: store(base, 8)):
        with pytest.raises(InvalidArgumentError, match="finite weights, got others in layer '0'"):
            transform()
