"""Verification of exact heat maps: a wrong value is reported with the layer that differs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")
from torch import nn

import udfs.incremental._network as incremental
from optimizer.occlusion import OcclusionGrid
from udfs.handlers import TensorSpec, framework
from udfs.occlusion import Explaining, HeatMap, NaiveOccluder, Occlusion, Score, VerificationError, places_to_verify
from udfs.occlusion._full_precision import full_float32
from udfs.occlusion.occluder import Occluder

SIDE = 16
GRID = OcclusionGrid((SIDE, SIDE), (4, 4), (4, 4))


def small() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)).eval()


def traced(module: nn.Module) -> Any:
    return framework("torch").trace(module, [TensorSpec((2, SIDE, SIDE))])


def mapped(model: Any, **options: Any) -> HeatMap:
    occluder = Occluder(model, Occlusion(GRID, (0.0, 0.0), **options))
    picture = np.random.default_rng(1).normal(size=(2, SIDE, SIDE)).astype(np.float32)
    return occluder.heat_map(occluder.opened(picture))


def test_an_exact_map_says_how_many_places_were_verified_and_how_near_they_are() -> None:
    model = traced(small())
    exact = mapped(model)
    assert exact.verified == 1
    assert 0 <= exact.difference < 1e-5
    assert mapped(model, verify=100).verified == 16, "all places at most"
    assert mapped(model, mode="naive").verified == 1
    sampled = mapped(model, mode="approximate", target_ssim=0.5)
    assert (sampled.verified, sampled.difference < 1e-5) == (1, True), "places that are computed are exact"
    for options in ({"verify": 0}, {"mode": "approximate", "tau": 0.7}):
        assert (mapped(model, **options).verified, mapped(model, **options).difference) == (0, 0.0)


def test_places_are_chosen_by_the_seed_and_are_all_different() -> None:
    some = [places_to_verify(4, (53, 53), seed) for seed in (0, 0, 1)]
    assert some[0] == some[1] != some[2]
    assert len(set(some[0])) == 4


def test_a_wrong_padding_is_found_and_its_layer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = traced(small())
    assert mapped(model, verify=16).difference < 1e-5
    monkeypatch.setattr(incremental, "outside", lambda _: 1.0)
    with pytest.raises(VerificationError, match="the original network has") as raised:
        mapped(model, verify=16)
    assert "the first layer that differs is '0' (Conv2d), as it is computed in parts" in str(raised.value)
    assert 'mode="naive"' in str(raised.value)


def test_a_wrong_value_in_a_layer_above_names_that_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    right = incremental.unpadded

    def wrong(module: Any, window: Any, context: torch.Tensor) -> torch.Tensor:
        computed = right(module, window, context)
        return computed + 0.1 if module.in_channels == 4 else computed

    monkeypatch.setattr(incremental, "unpadded", wrong)
    with pytest.raises(VerificationError, match=r"differs is '3' \(Conv2d\), as it is computed in parts"):
        mapped(traced(small()), verify=16)


def test_what_the_trace_lacks_is_found_too() -> None:
    module = small()
    model = traced(module)
    module[4].register_forward_hook(lambda *given: given[-1] * 1.5)
    with pytest.raises(VerificationError, match=r"differs is '4' \(ReLU\), as it was traced from the module"):
        mapped(model)
    with pytest.raises(VerificationError):
        mapped(model, mode="naive")


class Centred(nn.Module):
    """A network whose output for one record depends on the others of its batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.below, self.top = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        seen = self.below(image).relu().mean((2, 3))
        return self.top(seen - 0.5 * seen.mean(0))


@pytest.mark.parametrize("mode", ["exact", "naive"])
def test_a_network_that_mixes_the_records_of_a_batch_is_found(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    noticed = mapped(traced(Centred().eval()), mode=mode, score=Score("logit"), verify=16)
    assert noticed.difference < 1e-5, "it runs one place at a time"
    monkeypatch.setattr(incremental.IncrementalNetwork, "_mixes_records", lambda *_: False)
    with pytest.raises(VerificationError, match="depends on the other records of its batch"):
        mapped(traced(Centred().eval()), mode=mode, score=Score("logit"), verify=16)
    alone = mapped(traced(Centred().eval()), mode="naive", score=Score("logit"), verify=16, batch_size=1)
    assert alone.difference < 1e-5


def test_a_failed_verification_costs_its_row_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental.IncrementalNetwork, "_mixes_records", lambda *_: False)

    class Feed:
        columns = ("image",)

        def take(self, batch: pa.RecordBatch) -> Any:
            pixels = np.random.default_rng(1).normal(size=(batch.num_rows, 2, SIDE, SIDE)).astype(np.float32)
            return SimpleNamespace(arrays={"image": pixels}, reasons=[None] * batch.num_rows)

    occlusion = Occlusion(GRID, (0.0, 0.0), score=Score("logit"), verify=16)
    explaining = Explaining(cast("Any", None), cast("Any", Feed()), None, occlusion, "heat_map", "details", "cpu")
    batch = pa.record_batch([pa.array([b"", b""])], names=["image"])
    good = explaining._explain(Occluder(traced(small()), occlusion), batch)
    assert good.reasons == [None, None]
    assert good.columns[1].to_pylist()[0]["verified"] == 16
    bad = explaining._explain(Occluder(traced(Centred().eval()), occlusion), batch)
    assert bad.columns[0].to_pylist() == [None, None]
    assert all("depends on the other records of its batch" in str(reason) for reason in bad.reasons)


def test_a_network_that_float32_computes_coarsely_is_not_refused() -> None:
    """Its output is what rounding leaves of two equal sums: the user's own module is as far from float64."""

    class Coarse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.below = nn.Conv2d(2, 64, 3, padding=1)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            seen = self.below(image) * 1e4
            return seen.mean((2, 3)) - seen.mean(3).mean(2)

    rounded = mapped(traced(Coarse().eval()), score=Score("value"), verify=16)
    assert rounded.verified == 16
    assert rounded.difference > 1e-5


def test_float32_stays_float32_on_a_gpu_and_the_setting_is_put_back() -> None:
    owners = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul)
    before = [owner.fp32_precision for owner in owners]
    assert before[0] == "tf32", "what torch does unless it is told otherwise"
    with full_float32("cpu"):
        assert [owner.fp32_precision for owner in owners] == before
    with full_float32("cuda:0"):
        assert [owner.fp32_precision for owner in owners] == ["ieee"] * 3
    assert [owner.fp32_precision for owner in owners] == before


def test_networks_of_other_frameworks_are_run_one_at_a_time() -> None:
    keras = pytest.importorskip("keras")
    inputs = keras.Input((SIDE, SIDE, 2))
    seen = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3, activation="relu")(inputs))
    image = np.random.default_rng(1).normal(size=(SIDE, SIDE, 2)).astype(np.float32)
    spec = TensorSpec((SIDE, SIDE, 2))
    plain = framework("keras").trace(keras.Model(inputs, keras.layers.Dense(3)(seen)), [spec])
    occluder = NaiveOccluder(plain, Occlusion(GRID, (0.0, 0.0)))
    assert occluder.heat_map(occluder.opened(image)).verified == 1
    centred = keras.Model(inputs, keras.layers.Dense(3)(seen - 0.5 * keras.ops.mean(seen, axis=0, keepdims=True)))
    mixing = NaiveOccluder(framework("keras").trace(centred, [spec]), Occlusion(GRID, (0.0, 0.0), verify=16))
    with pytest.raises(VerificationError, match="depends on the other records of its batch"):
        mixing.heat_map(mixing.opened(image))


def test_the_approximate_mode_finds_a_wrong_trace_by_the_image_alone() -> None:
    module = small()
    model = traced(module)
    module[4].register_forward_hook(lambda *given: given[-1] * 1.5)
    with pytest.raises(VerificationError, match=r"without a patch.*differs is '4' \(ReLU\), as it was traced"):
        mapped(model, mode="approximate", tau=0.7)


def test_the_approximate_mode_checks_the_places_that_it_computes_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    model = traced(small())
    monkeypatch.setattr(incremental, "outside", lambda _: 1.0)
    with pytest.raises(VerificationError, match="as it is computed in parts"):
        mapped(model, mode="approximate", target_ssim=0.5, verify=16)


def test_only_places_that_are_computed_are_chosen() -> None:
    some = np.zeros((10, 10), np.bool_)
    some[2, 3] = some[7, 8] = True
    assert places_to_verify(4, (10, 10), 0, some) == [(2, 3), (7, 8)]


@pytest.mark.parametrize("mode", ["exact", "naive", "approximate"])
def test_a_network_that_draws_at_random_is_not_taken_for_one_that_rounds(mode: str) -> None:
    """A dropout that is always on differs in float64, too, by another draw and not by rounding."""

    class Drops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.above(nn.functional.dropout(self.below(image), 0.5).mean((2, 3)))

    torch.manual_seed(0)
    model = traced(Drops().eval())
    with pytest.raises(VerificationError, match=r"run once more it gives another value.*verify=0"):
        mapped(model, mode=mode)
    assert mapped(model, mode=mode, verify=0).verified == 0
