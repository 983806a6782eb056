"""Occlusion heat maps of real photographs by a real MobileNetV2."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from real_inputs import foolbox_images, mobilenet_v2_weights
from typer.testing import CliRunner

from optimizer.occlusion import PatchError
from udfs.images import ImageError, Preprocessing
from udfs.occlusion import similarity
from vista_spark import explain_image, explain_image_sizes, roster
from vista_spark.cli import app
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion import _monitor, _session

torch = pytest.importorskip("torch")

from udfs.incremental import IncrementalNetwork

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_exact_is_naive() -> None:
    path, label = foolbox_images()[3]
    common: dict[str, Any] = {"weights": mobilenet_v2_weights(), "patch_size": 32, "stride": 32}
    exact = explain_image(path, "mobilenet_v2", **common)
    naive = explain_image(path, "mobilenet_v2", mode="naive", **common)
    assert exact.predicted == naive.predicted == exact.target == label
    assert exact.heat_map.shape == (7, 7)
    np.testing.assert_allclose(exact.heat_map, naive.heat_map, atol=1e-5)
    assert exact.probability > 0.9
    assert exact.heat_map.min() < exact.probability - 0.01, "no patch changes anything"
    assert 1.5 < exact.theoretical_speedup < 3
    assert "class 990" in exact.explain()
    # The object is in the left half: what is laid over the right one changes little.
    assert np.abs(exact.heat_map[:, 6] - exact.probability).max() < np.abs(exact.heat_map - exact.probability).max()
    low, high = exact.plot().axes[1].collections[0].get_clim()
    assert (low + high) / 2 == pytest.approx(exact.probability), "the colours are centred on the whole image"
    assert exact.top[0][0] == label
    assert [score for _, score in exact.top] == sorted((score for _, score in exact.top), reverse=True)
    assert exact.top[0][1] == pytest.approx(exact.probability)
    assert len(exact.top) == 5
    assert (exact.model, exact.has_random_weights) == ("mobilenet_v2", False)


def test_a_region_a_class_and_news_of_it() -> None:
    path, _ = foolbox_images()[3]
    seen: list[np.ndarray] = []
    found = explain_image(
        path,
        "squeezenet1_1",
        image_size=96,
        target=7,
        region=((16, 64), (32, 96)),
        patch_size=16,
        stride=16,
        batch_size=4,
        on_update=seen.append,
    )
    assert found.heat_map.shape == (3, 4)
    assert found.target == 7
    shares = [float(np.isfinite(heat_map).mean()) for heat_map in seen]
    assert shares == sorted(shares)
    assert shares[0] < 1 == shares[-1]
    np.testing.assert_array_equal(seen[-1], found.heat_map)


def test_an_approximate_heat_map_is_nearly_the_exact_one() -> None:
    path, _ = foolbox_images()[3]
    common: dict[str, Any] = {"weights": mobilenet_v2_weights(), "patch_size": 32, "stride": 12, "image_size": 128}
    exact = explain_image(path, "mobilenet_v2", **common)
    assert np.ptp(exact.heat_map) > 0.05, "a flat heat map would be like any other"
    rough = explain_image(path, "mobilenet_v2", mode="approximate", tau=0.9, target_speedup=1.0, **common)
    drilled = explain_image(path, "mobilenet_v2", mode="approximate", tau=1.0, target_speedup=1.5, **common)
    lean = explain_image(
        path, "mobilenet_v2", mode="approximate", tau=1.0, target_speedup=1.0, precision="bfloat16", **common
    )
    assert similarity(exact.heat_map, lean.heat_map) > 0.95
    for found in (rough, drilled, lean):
        assert not np.allclose(found.heat_map, exact.heat_map, atol=1e-4)
        assert similarity(exact.heat_map, found.heat_map) > 0.6
    assert np.isclose(drilled.heat_map, exact.heat_map, atol=1e-5).mean() >= 0.25


class Ticks:
    """A clock that no load on the machine disturbs: each look at it takes as long."""

    def __init__(self, step: float) -> None:
        self.step, self.now = step, 0.0

    def perf_counter(self) -> float:
        self.now += self.step
        return self.now


def test_the_time_is_told_anew_each_time_and_corrected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))
    picture = np.random.default_rng(0).normal(size=(3, 96, 96)).astype(np.float32)
    common: dict[str, Any] = {"image_size": 96, "patch_size": 16, "stride": 4, "batch_size": 8}
    # The second run is a hundred times as slow: what was measured in the first is of no use to it.
    for mode, step in (("exact", 0.01), ("exact", 1.0), ("naive", 0.01)):
        told: list[tuple[float, float]] = []
        seen: list[np.ndarray] = []
        clock = Ticks(step)
        for module in (_monitor, _session):
            monkeypatch.setattr(module, "time", clock)
        found = explain_image(
            picture, "squeezenet1_1", mode=mode, on_update=seen.append,
            on_estimate=lambda seconds, told=told, clock=clock: told.append((clock.now, seconds)), **common,
        )  # fmt: skip
        assert told
        assert told[-1][1] == pytest.approx(found.seconds, rel=0.25)
        started = clock.now - found.seconds
        assert all(seconds >= now - started - step for now, seconds in told), "what has passed is a part of it"
        # From coarse to fine: the first four places are the corners of a lattice that spans the map.
        assert np.argwhere(~np.isnan(seen[0])).tolist() == [[0, 0], [0, 16], [16, 0], [16, 16]]
        plain = explain_image(picture, "squeezenet1_1", mode=mode, **common)
        # Other batches round differently; a wrong place is off by far more.
        np.testing.assert_allclose(plain.heat_map, found.heat_map, atol=1e-5)
    assert not (tmp_path / "explanations").exists(), "what was measured under another load is not remembered"


@pytest.mark.extended
@pytest.mark.connect
@pytest.mark.slow
def test_a_cluster_shares_the_places(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))
    path, _ = foolbox_images()[3]
    common: dict[str, Any] = {"weights": mobilenet_v2_weights(), "image_size": 128, "stride": 12}
    rough = {"mode": "approximate", "tau": 0.8, "target_speedup": 1.5}
    for extra, nearly in (({}, 1e-5), (rough, 1e-5), (rough | {"precision": "bfloat16"}, 1e-2)):
        told: list[float] = []
        seen: list[np.ndarray] = []
        alone = explain_image(path, "mobilenet_v2", **common, **extra)
        spread = explain_image(
            path, "mobilenet_v2", spark=spark, on_update=seen.append, on_estimate=told.append, **common, **extra
        )
        assert np.ptp(alone.heat_map) > 0.004, "a flat heat map would be like any other"
        np.testing.assert_allclose(spread.heat_map, alone.heat_map, atol=nearly)
        assert (spread.target, spread.probability) == (alone.target, pytest.approx(alone.probability, rel=1e-4))
        assert min(told) > 0
        assert 1 < len(seen) < 16, "a round at a time"
        assert np.isnan(seen[0]).any()
        assert not np.isnan(seen[0][::2, ::2]).any() or extra, "the first round is a picture of half the resolution"
    with pytest.raises(InvalidArgumentError, match="weights must be a file with spark, got a dict"):
        explain_image(path, "mobilenet_v2", {}, spark=spark)


def test_sizes_of_the_patch_share_the_views(monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = foolbox_images()[3]
    common: dict[str, Any] = {"weights": mobilenet_v2_weights(), "image_size": 96, "stride": 16}
    alone = [explain_image(path, "mobilenet_v2", patch_size=size, **common) for size in (16, 32)]
    runs: list[int] = []
    materialise = IncrementalNetwork.materialise
    monkeypatch.setattr(IncrementalNetwork, "materialise", lambda *given: runs.append(1) or materialise(*given))
    found = explain_image_sizes(path, "mobilenet_v2", patch_sizes=(16, 32), **common)
    assert len(runs) == 1
    assert [one.heat_map.shape for one in found] == [(6, 6), (5, 5)]
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_allclose(one.heat_map, other.heat_map, atol=1e-6)
    with pytest.raises(PatchError, match=r"patch on axis 0 must fit into .* got 97"):
        explain_image_sizes(path, "mobilenet_v2", patch_sizes=(16, 97), **common)
    with pytest.raises(InvalidArgumentError, match="patch_sizes must have at least one"):
        explain_image_sizes(path, "mobilenet_v2", patch_sizes=(), **common)


def test_a_card_may_name_its_own_weights() -> None:
    card = replace(roster.card("mobilenet_v2"), weights=str(mobilenet_v2_weights()))
    common: dict[str, Any] = {"image_size": 64, "patch_size": 32, "stride": 32, "verify": 0}
    path, _ = foolbox_images()[3]
    own = explain_image(path, card, **common)
    given = explain_image(path, "mobilenet_v2", mobilenet_v2_weights(), **common)
    np.testing.assert_array_equal(own.heat_map, given.heat_map)
    assert not own.has_random_weights


def test_a_network_without_convolutions_runs_naive_and_says_so() -> None:
    def flat() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 4))

    card = roster.ModelCard("flat", flat, Preprocessing(8), (roster.FeatureLayer("fc", "1"),), 772, "none")
    picture = np.random.default_rng(0).normal(size=(3, 8, 8)).astype(np.float32)
    common: dict[str, Any] = {"patch_size": 4, "stride": 2}
    found = explain_image(picture, card, mode="naive", **common)
    assert found.heat_map.shape == (3, 3)
    assert np.ptp(found.heat_map) > 1e-3
    assert "instead of" not in found.explain()
    exact = explain_image(picture, card, **common)
    assert exact.mode == "naive"
    assert "naive instead of exact: the network has no convolution or pooling" in exact.explain()
    np.testing.assert_allclose(exact.heat_map, found.heat_map, atol=1e-6)
    fewer = explain_image(picture, card, mode="approximate", **common)
    assert fewer.mode == "approximate"  # it may compute fewer places


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"patch_size": 65}, PatchError, "patch on axis 0 must fit into 64, got 65"),
        ({"stride": 0}, InvalidArgumentError, "stride must be at least 1, got 0"),
        ({"stride": 25}, InvalidArgumentError, "stride must be at most the patch of 24, got 25"),
        (
            {"mode": "approximate", "tau": 0.0, "target_speedup": 1.0},
            PatchError,
            "tau must be above 0",
        ),
        (
            {"mode": "approximate", "target_speedup": 5.0},
            InvalidArgumentError,
            "by drill-down must be",
        ),
        (
            {"region": ((0, 65), (0, 64))},
            PatchError,
            "region on axis 0 must be within 0 and 64",
        ),
        ({"target": 1000}, InvalidArgumentError, "target must be from 0 to 999, got 1000"),
        (
            {"perturbation": "colour"},
            InvalidArgumentError,
            "perturbation must be .* got 'colour'; did you mean 'color'",
        ),
        ({"precision": "float16"}, InvalidArgumentError, "precision must be .*'float16'; did you mean 'bfloat16'"),
        ({"mode": "exat"}, InvalidArgumentError, "mode must be one of .* got 'exat'; did you mean 'exact'"),
        ({"patch_color": (0, 0, 256)}, InvalidArgumentError, "three integers from 0 to 255"),
        ({"model": "minilm_l6"}, InvalidArgumentError, "model must be a network for images"),
        ({"image": b"junk"}, ImageError, "not a JPEG"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, Any], error: type[Exception], said: str) -> None:
    usual: dict[str, Any] = {"image": np.zeros((3, 64, 64), np.float32), "model": "squeezenet1_1", "image_size": 64}
    usual |= {"patch_size": 24, "stride": 24}
    with pytest.raises(error, match=said):
        explain_image(**usual | settings)


def test_the_command_takes_a_likeness(tmp_path: Path) -> None:
    path, _ = foolbox_images()[3]
    command = [
        "explain",
        str(path),
        "--model",
        "squeezenet1_1",
        "--random-weights",
        "--image-size",
        "64",
        "--stride",
        "2",
    ]
    command += ["--mode", "approximate", "--target-ssim", "0.5", "--out", str(tmp_path / "heat.png")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "estimated likeness (SSIM) to the exact heat map" in done.output
    assert "RANDOM WEIGHTS" in done.output
    assert 0.5 <= json.loads((tmp_path / "heat.json").read_text())["likeness"] < 1
    refused = CliRunner().invoke(app, [*command, "--tau", "0.5"])
    assert refused.exit_code == 2
    assert "target_ssim=0.5 and tau=0.5" in refused.output


def test_the_command(tmp_path: Path) -> None:
    path, label = foolbox_images()[3]
    out = tmp_path / "heat.png"
    command = [sys.executable, "-m", "vista_spark", "explain", str(path), "--model", "mobilenet_v2", "--out", str(out)]
    command += ["--weights", str(mobilenet_v2_weights()), "--stride", "32", "--patch-size", "32"]
    names = tmp_path / "names.txt"
    names.write_text("".join(f"plant {number}\n" for number in range(1000)))
    command += ["--class-names", str(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"class {label} (plant {label}) with probability 0.9" in done.stdout
    numbers = json.loads((tmp_path / "heat.json").read_text())
    assert (numbers["target"], numbers["target_name"]) == (label, f"plant {label}")
    assert np.shape(numbers["heat_map"]) == (7, 7)
    assert out.read_bytes().startswith(b"\x89PNG")
