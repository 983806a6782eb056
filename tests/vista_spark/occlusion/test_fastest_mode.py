"""Precision by measurement, and exact heat maps where an approximation would take longer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from optimizer.errors import InvalidArgumentError
from udfs.handlers import TensorSpec
from udfs.handlers.torch import FRAMEWORK
from udfs.occlusion import bfloat16_pace
from vista_spark import OcclusionOptions, explain_tensor
from vista_spark.occlusion import _predicted_cost
from vista_spark.occlusion._settings import occlusion_settings

IMAGE = np.random.default_rng(0).normal(size=(3, 48, 48)).astype("float32")


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    ).eval()  # fmt: skip


def settled(network: nn.Module, monkeypatch: pytest.MonkeyPatch, slowdown: float, **options: Any) -> Any:
    """Settings on a device where bfloat16 takes so many times the seconds of float32."""
    monkeypatch.setattr(_predicted_cost, "_WORTH_MEASURING", 0.0)
    monkeypatch.setattr(bfloat16_pace, "bfloat16_slowdown", lambda _: slowdown)
    traced = FRAMEWORK.trace(network, [TensorSpec((3, 48, 48))])
    wanted = OcclusionOptions(patch_size=12, stride=4, mode="approximate", **options)
    return occlusion_settings(wanted, traced, (48, 48), (0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("slowdown", "options", "mode", "precision"),
    [
        # Half the places in bfloat16, on processors with its instructions and without.
        (0.5, {"target_speedup": 2.0, "precision": "bfloat16"}, "approximate", "bfloat16"),
        (6.6, {"target_speedup": 2.0, "precision": "bfloat16"}, "exact", "float32"),
        (0.5, {"target_speedup": 2.0}, "approximate", "bfloat16"),
        (0.95, {"target_speedup": 2.0}, "approximate", "float32"),
        (6.6, {"target_speedup": 2.0, "precision": "auto"}, "approximate", "float32"),
        (6.6, {"tau": 0.5, "target_speedup": 1.0, "precision": "bfloat16"}, "exact", "float32"),
        (float("inf"), {"tau": 0.5, "precision": "bfloat16"}, "exact", "float32"),
        # All places nearly in full, and a sample of them once more.
        (0.5, {"tau": 0.99, "target_speedup": 1.0, "precision": "float32"}, "exact", "float32"),
        # Rounds of exact places are in float32.
        (0.5, {}, "approximate", "float32"),
        (0.5, {"precision": "bfloat16"}, "approximate", "bfloat16"),
        (6.6, {"precision": "bfloat16"}, "approximate", "float32"),
        (0.5, {"target_ssim": 0.8, "precision": "auto"}, "approximate", "float32"),
    ],
)
def test_the_mode_and_the_precision_are_the_fastest(
    slowdown: float,
    options: dict[str, Any],
    mode: str,
    precision: str,
    network: nn.Module,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    occlusion = settled(network, monkeypatch, slowdown, **options)
    assert (occlusion.mode, occlusion.precision) == (mode, precision)
    is_changed = mode == "exact" or (options.get("precision") == "bfloat16" and precision != "bfloat16")
    assert bool(occlusion.note) == is_changed


def test_the_result_tells_of_the_change(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_predicted_cost, "_WORTH_MEASURING", 0.0)
    monkeypatch.setattr(bfloat16_pace, "bfloat16_slowdown", lambda _: 6.6)
    options: dict[str, Any] = {"patch": 12, "stride": 4}
    changed = explain_tensor(network, IMAGE, mode="approximate", tau=0.9, precision="bfloat16", **options)
    assert changed.mode == "exact"
    assert "exact instead of approximate, which would take about" in changed.explain()
    assert "bfloat16 takes 6.6 times as long as float32 on this device" in changed.explain()
    exact = explain_tensor(network, IMAGE, **options)
    np.testing.assert_array_equal(changed.heat_map, exact.heat_map)


def test_small_heat_maps_are_not_measured(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16_pace, "bfloat16_slowdown", lambda _: pytest.fail("a layer was measured"))
    for precision in ("auto", "float32", "bfloat16"):
        explain_tensor(network, IMAGE, mode="approximate", tau=0.5, precision=precision, patch=12, stride=4)


@pytest.mark.parametrize("layers", [nn.Conv2d(3, 4, 3), nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 4)), nn.ReLU()])
def test_a_layer_of_any_network_is_measured(layers: nn.Module) -> None:
    traced: Any = FRAMEWORK.trace(nn.Sequential(layers, nn.Flatten()).eval(), [TensorSpec((3, 8, 8))])
    slowdown = bfloat16_pace.bfloat16_slowdown(traced)
    assert slowdown > 0
    assert bfloat16_pace.bfloat16_slowdown(traced) == slowdown  # measured once
    assert all(parameter.dtype == torch.float32 for parameter in layers.parameters())


def test_other_precisions_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="precision must be"):
        OcclusionOptions(mode="approximate", precision="half")
