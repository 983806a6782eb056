"""Gain of batches, and several models on one backend: in turn or in parallel, whole or over one trunk."""

from __future__ import annotations

import statistics
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmarks.serving._arms import (
    CLIPPER,
    DEFERRED,
    MAXIMAL,
    OURS,
    PARALLEL,
    TF_SERVING,
    Models,
    good_rate,
    planned_live,
)
from benchmarks.serving._lines import INCEPTION, RESNET50, SQUEEZENET, SSD, VGG_FACE, with_heads
from benchmarks.serving.simulation import arrival_times, simulate
from optimizer.serving import BatchingProfile, Session
from udfs.serving import TensorSpec
from vista_spark import roster, serving
from vista_spark.errors import RandomWeightsWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from benchmarks.harness.report import Report

__all__ = ["batching", "multiplexing", "policies", "prefixes", "suffixes"]

_ARMS = (OURS, PARALLEL, TF_SERVING, CLIPPER)
_SLO = 100.0
_MODELS = 3
_COUNTS = (3, 5, 10)
# Networks that are run here, and the batches that are timed.
_RUN = {"mobilenet_v2": (1, 4, 8, 16), "squeezenet1_1": (1, 4, 8, 16), "resnet18": (1, 4, 8, 16)}
_IMAGE = 224
_VGG_BATCHES = (1, 2, 4, 10)
_BATCHES = (1, 8, 32, 64)
# Requests per second of each of three models of Inception, and how many times as many one of them gets.
_ASKED, _TOO_MANY = 300.0, 3
_MIB = 1 << 20


def batching(report: Report, seconds: float) -> None:
    """Redo Figure 3.3: gain of batches over single images, on this CPU with one thread."""
    del seconds
    rows = []
    for name in ("lenet", "mobilenet_v2", "resnet18", "vgg16"):
        # A batch of 64 of VGG-16 takes half a minute.
        sizes = _BATCHES[:-1] if name == "vgg16" else _BATCHES
        found = _of_module(_lenet(), (1, 28, 28), sizes) if name == "lenet" else _of_network(name, sizes)
        rates = {batch: found.throughput(batch) for batch in sizes}
        gains = [f"{rates[batch] / rates[1]:.2f}" if batch in rates else "" for batch in _BATCHES]
        rows.append((name, f"{rates[1]:.4g}", *gains[1:], ""))
        largest = max(rates)
        report.ratio(f"batching.{name}", rates[largest] / rates[1], f"images/s in batches of {largest} / of 1")
    columns = ("network", "images/s alone", *(f"x in batches of {batch}" for batch in _BATCHES[1:]), "")
    report.table("Figure 3.3 on this CPU, one thread (paper, on GPUs: 2.5 to 24 in batches of 8 to 64)", columns, rows)


def multiplexing(report: Report, seconds: float) -> None:
    """Redo Figure 3.16: models that share nothing on one backend."""
    cases = [(f"{count} x Inception, {_SLO:g} ms", INCEPTION, count, _SLO) for count in range(2, 6)]
    cases += [(f"3 x Inception, {slo:g} ms", INCEPTION, _MODELS, slo) for slo in (50.0, 150.0, 200.0)]
    others = {"SqueezeNet": SQUEEZENET, "ResNet-50": RESNET50, "VGG-16": VGG_FACE}
    cases += [(f"3 x {name}, {_SLO:g} ms", profile, _MODELS, _SLO) for name, profile in others.items()]
    rows = []
    gains: dict[str, list[float]] = {arm.name: [] for arm in _ARMS}
    for name, profile, count, slo in cases:
        rates = {arm.name: good_rate(arm, _variants(profile, count, slo), 1, seconds) for arm in _ARMS}
        best = rates[OURS.name]
        for arm, rate in rates.items():
            gains[arm].append(best / max(rate, 1.0))
        rows.append((name, *(f"{rate:.0f}" for rate in rates.values()), ""))
    report.table(
        "Figure 3.16: requests/s of one backend, 99 % in time", ("models", *(arm.name for arm in _ARMS), ""), rows
    )
    paper = {PARALLEL.name: "1.1 to 1.3", TF_SERVING.name: "1.4 to 2.1", CLIPPER.name: "1.9 to 9.8"}
    for key, rival in (("parallel", PARALLEL), ("tf_serving", TF_SERVING), ("clipper", CLIPPER)):
        ratios = gains[rival.name]
        meaning = f"requests/s of one backend, ours / {rival.name}, median of {len(ratios)}; paper {paper[rival.name]}"
        report.ratio(f"multiplexing_over_{key}", statistics.median(ratios), meaning)


def policies(report: Report, seconds: float) -> None:
    """Compare dispatch policies for three models on one backend, as planned and with one model overloaded."""
    cases = {"Inception, 100 ms": (INCEPTION, _SLO), "Inception, 50 ms": (INCEPTION, 50.0)}
    cases |= {"ResNet-50, 100 ms": (RESNET50, _SLO), "VGG-16, 100 ms": (VGG_FACE, _SLO), "SSD, 400 ms": (SSD, 400.0)}
    arms = (OURS, MAXIMAL, DEFERRED)
    rows, gains = [], []
    for name, (profile, slo) in cases.items():
        rates = [good_rate(arm, _variants(profile, _MODELS, slo), 1, seconds) for arm in arms]
        gains.append(rates[1] / rates[0])
        rows.append((f"3 x {name}", *(f"{rate:.0f}" for rate in rates), ""))
    columns = ("models", *(arm.dispatch for arm in arms), "")
    report.table("Policies of dispatch: requests/s of one backend, 99 % in time", columns, rows)
    meaning = f"requests/s of one backend with three models, maximal / sliding, least of {len(gains)}"
    report.ratio("policies_maximal", min(gains), meaning)
    sessions = [Session(f"model-{number}", INCEPTION, _SLO, _ASKED) for number in range(_MODELS)]
    live = planned_live(sessions, 1)
    asked = [_TOO_MANY * _ASKED, *[_ASKED] * (_MODELS - 1)]
    traffic = {
        one.name: arrival_times(rate, seconds, seed=place)
        for place, (one, rate) in enumerate(zip(sessions, asked, strict=True))
    }
    for arm in (OURS, MAXIMAL):
        served = simulate(live, traffic=traffic, policy=arm.dispatch).sessions
        least = min(served[one.name].good_rate for one in sessions[1:])
        meaning = f"requests in time of models beside one with {_TOO_MANY} times its rate, {arm.dispatch}, least"
        report.ratio(f"neighbours_{arm.dispatch}", least, meaning)


def prefixes(report: Report, seconds: float) -> None:
    """Redo Figure 3.17: variants that differ in the last layer, over one trunk and whole, on one backend."""
    rows = []

    def row(name: str, whole: BatchingProfile, shared: BatchingProfile, count: int, slo: float) -> float:
        apart = good_rate(OURS, _variants(whole, count, slo), 1, seconds, 500 / float(whole.latencies[1]))
        joint = good_rate(OURS, _variants(shared, 1, slo), 1, seconds, 500 / float(whole.latencies[1]))
        gain = joint / apart if apart else float("inf")
        rows.append((name, f"{joint:.4g}", f"{apart:.4g}", f"{gain:.2f}", ""))
        return gain

    for count in (2, *_COUNTS):
        gain = row(f"{count} x Inception, {_SLO:g} ms", INCEPTION, with_heads(INCEPTION, count), count, _SLO)
    report.ratio("prefix.inception", gain, f"requests/s of a GPU, {count} variants over one trunk / whole, simulated")
    for slo in (50.0, 200.0):
        row(f"3 x Inception, {slo:g} ms", INCEPTION, with_heads(INCEPTION, _MODELS), _MODELS, slo)
    for name, profile in (("SqueezeNet", SQUEEZENET), ("ResNet-50", RESNET50)):
        for count in _COUNTS:
            row(f"{count} x {name}, {_SLO:g} ms", profile, with_heads(profile, count), count, _SLO)
    for name, batches in _RUN.items():
        timed = _timed(name, batches, 1)
        slo = 20 * float(timed.whole.latencies[1])
        for count in _COUNTS:
            gain = row(f"{count} x {name} on this CPU, {slo:.0f} ms", timed.whole, timed.shared(count), count, slo)
        report.ratio(
            f"prefix.{name}", gain, f"requests/s of one core, {count} variants over one trunk / whole, simulated"
        )
    columns = ("variants", "over one trunk", "each whole", "gain", "")
    report.table("Figure 3.17: requests/s of one backend, 99 % in time (paper: up to 2.25, and up to 3)", columns, rows)
    report.note("Profiles of this CPU were measured with one thread; a batch of the trunk feeds each head its rows.")


def suffixes(report: Report, seconds: float) -> None:
    """Redo Figure 3.18: VGG-16 whose variants differ in the last one to three fully-connected layers; it is run."""
    del seconds
    rows = []
    largest = max(_VGG_BATCHES)
    for layers in (1, 2, 3):
        timed = _timed("vgg16", _VGG_BATCHES, layers)
        alone = largest / float(timed.whole.latencies[largest])
        cells = []
        for count in (2, 5, 10):
            kept = largest / float(timed.shared(count).latencies[largest]) / alone
            held = (timed.bytes + (count - 1) * timed.suffix_bytes) / _MIB
            cells.append(f"{kept:.2f}, {held:.0f} MiB")
        report.ratio(f"suffix.{layers}_fc", kept, f"images/s of VGG-16 in batches of {largest}, {count} suffixes / one")
        rows.append((f"{layers}-FC", *cells, ""))
    whole = timed.bytes / _MIB
    columns = ("suffix", "2 models", "5", "10", "")
    report.table(
        f"Figure 3.18: VGG-16 on this CPU, batches of {largest}: throughput over one model's, weights", columns, rows
    )
    report.note(
        f"Ten whole networks hold {10 * whole:.0f} MiB. Paper: 0.95 of the throughput with 2-FC, 0.72 with 3-FC."
    )


@dataclass(frozen=True)
class _Timed:
    """A network's latency whole and of its suffix, and the bytes of both."""

    whole: BatchingProfile
    suffix: BatchingProfile
    bytes: int
    suffix_bytes: int

    def shared(self, count: int) -> BatchingProfile:
        """One trunk for a batch, and for each variant its suffix on equal parts of the rows."""
        latencies = {}
        for batch in range(1, self.whole.max_batch + 1):
            trunk = float(self.whole.latencies[batch] - self.suffix.latencies[batch])
            parts = [batch // count + (place < batch % count) for place in range(count)]
            latencies[batch] = trunk + sum(float(self.suffix.latencies[part]) for part in parts if part)
        return BatchingProfile(latencies)


def _variants(profile: BatchingProfile, count: int, slo: float) -> Models:
    return Models({f"variant-{number}": (profile, 1 / count) for number in range(count)}, slo, {})


def _timed(name: str, batches: Sequence[int], layers: int) -> _Timed:
    """Profile a network and its last fully-connected layers."""
    net = roster.load(name, seed=0).eval()
    suffix, read = _suffix(net, layers)
    # Interpolated sizes serve for whole networks; a suffix is fast, and every size of it counts.
    part = _of_module(suffix, read, range(1, max(batches) + 1))
    return _Timed(_of_network(name, batches), part, _bytes(net), _bytes(suffix))


def _lenet() -> torch.nn.Module:
    convolutions = [torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)]
    pooled = [part for one in convolutions for part in (one, torch.nn.ReLU(), torch.nn.MaxPool2d(2))]
    linears = [torch.nn.Linear(400, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)]
    return torch.nn.Sequential(*pooled, torch.nn.Flatten(), *linears)


def _of_network(name: str, batches: Sequence[int]) -> BatchingProfile:
    with warnings.catch_warnings():
        # They cost the same time.
        warnings.simplefilter("ignore", RandomWeightsWarning)
        return serving.profile_batches(serving.Session(name, model=name, image_size=_IMAGE), batches)


def _of_module(module: torch.nn.Module, shape: tuple[int, ...], batches: Sequence[int]) -> BatchingProfile:
    def run(given: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        with torch.inference_mode():
            return {"y": module(torch.from_numpy(given["x"])).flatten(1).numpy()}

    inputs = [TensorSpec("x", "float32", (-1, *shape))]
    return serving.profile_batches(serving.Session("module", model=run, inputs=inputs), batches)


def _suffix(net: torch.nn.Module, layers: int) -> tuple[torch.nn.Module, tuple[int, ...]]:
    """Find what begins with the last fully-connected layers but so many, and the shape of what it reads."""
    linears = [module for module in net.modules() if isinstance(module, torch.nn.Linear)]
    if not linears:
        # SqueezeNet classifies by a convolution of 1 x 1.
        last = [module for module in net.modules() if isinstance(module, torch.nn.Conv2d)][-1]
        return torch.nn.Sequential(last, torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)), (last.in_channels, 13, 13)
    chosen = linears[-layers:]
    parts: list[torch.nn.Module] = [chosen[0]]
    for linear in chosen[1:]:
        parts += [torch.nn.ReLU(), linear]
    return torch.nn.Sequential(*parts), (chosen[0].in_features,)


def _bytes(module: torch.nn.Module) -> int:
    return sum(one.numel() * one.element_size() for one in module.parameters())
