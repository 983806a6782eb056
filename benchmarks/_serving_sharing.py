"""What batches gain, and several models on one backend: in turn or in parallel, each whole or over one trunk."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from _serving_arms import CLIPPER, OURS, PARALLEL, TF_SERVING, Models, good_rate
from _serving_lines import INCEPTION, RESNET50, SQUEEZENET, VGG_FACE, with_heads

from optimizer.serving import BatchingProfile
from udfs.node import freed_memory_kept
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _report import Report

__all__ = ["batching", "multiplexing", "prefixes", "suffixes"]

_ARMS = (OURS, PARALLEL, TF_SERVING, CLIPPER)
_SLO = 100.0
_MODELS = 3
_COUNTS = (3, 5, 10)
# Networks that are run here, and the batches that are timed.
_RUN = {"mobilenet_v2": (1, 4, 8, 16), "squeezenet1_1": (1, 4, 8, 16), "resnet18": (1, 4, 8, 16)}
_IMAGE = 224
_VGG_BATCHES = (1, 2, 4, 10)
_BATCHES = (1, 8, 32, 64)
_TIMES = 3
_LONG_S = 1.0
_MIB = 1 << 20


def batching(report: Report, seconds: float) -> None:
    """Redo Figure 3.3: what batches gain over single images, on this CPU with one thread."""
    del seconds
    rows = []
    cases = {name: (roster.load(name, seed=0), (3, _IMAGE, _IMAGE)) for name in ("mobilenet_v2", "resnet18", "vgg16")}
    for name, (net, shape) in {"lenet": (_lenet(), (1, 28, 28)), **cases}.items():
        # A batch of 64 of VGG-16 takes half a minute.
        sizes = _BATCHES[:-1] if name == "vgg16" else _BATCHES
        times = _latencies(net.eval(), shape, sizes)
        rates = {batch: 1000 * batch / ms for batch, ms in times.items()}
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
    for key, arm in (("parallel", PARALLEL), ("tf_serving", TF_SERVING), ("clipper", CLIPPER)):
        found = gains[arm.name]
        meaning = f"requests/s of one backend, ours / {arm.name}, median of {len(found)}; paper {paper[arm.name]}"
        report.ratio(f"multiplexing_over_{key}", statistics.median(found), meaning)


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
        row(f"{count} x Inception, {_SLO:g} ms", INCEPTION, with_heads(INCEPTION, count), count, _SLO)
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
    """Time a network and its last fully-connected layers, one thread."""
    torch.manual_seed(0)
    net = roster.load(name, seed=0).eval()
    suffix, read = _suffix(net, layers)
    whole = BatchingProfile(_latencies(net, (3, _IMAGE, _IMAGE), batches))
    # Interpolated sizes serve for whole networks; a suffix is fast, and every size of it counts.
    part = BatchingProfile(_latencies(suffix, read, range(1, max(batches) + 1)))
    return _Timed(whole, part, _bytes(net), _bytes(suffix))


def _lenet() -> torch.nn.Module:
    convolutions = [torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)]
    pooled = [part for one in convolutions for part in (one, torch.nn.ReLU(), torch.nn.MaxPool2d(2))]
    linears = [torch.nn.Linear(400, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)]
    return torch.nn.Sequential(*pooled, torch.nn.Flatten(), *linears)


def _latencies(module: torch.nn.Module, shape: tuple[int, ...], batches: Iterable[int]) -> dict[int, float]:
    """Milliseconds of a batch by its size, with one thread, as in a backend."""
    layout = torch.channels_last if len(shape) == len("CHW") else torch.contiguous_format
    net = module.to(memory_format=torch.channels_last)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with freed_memory_kept():
            drawn = {batch: torch.rand(batch, *shape).to(memory_format=layout) for batch in batches}
            return {batch: _milliseconds(net, images) for batch, images in drawn.items()}
    finally:
        torch.set_num_threads(threads)


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


def _milliseconds(module: torch.nn.Module, given: torch.Tensor) -> float:
    with torch.inference_mode():
        module(given)
        taken = []
        for _ in range(_TIMES):
            began = time.perf_counter()
            module(given)
            taken.append(time.perf_counter() - began)
            if sum(taken) > _LONG_S:
                break
    return 1000 * min(taken)


def _bytes(module: torch.nn.Module) -> int:
    return sum(one.numel() * one.element_size() for one in module.parameters())
