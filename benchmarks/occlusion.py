"""Occlusion heat maps of one photograph: the naive way, captum's, ours exact and approximate, and FLOPs.

``python benchmarks/occlusion.py`` takes patches of 16 every 16 pixels, a coarse heat map for which it needs under five
minutes; ``--stride 4`` is the paper's setting. All ways run the same network with its batch norms folded, in the memory
layout that this machine's convolutions are fastest with. The naive ways run on a part of the places, a random sample
(captum on as many as cover the image once), and their seconds are scaled to all; the sample's values are compared with
the exact ones. Weights are random, but MobileNetV2's and those of ``--weights``: time does not depend on them, and the
SSIM of heat maps that show nothing is not printed. Theory is in FLOPs, over all places, with the layers that are
computed in full. Memory is what a process of its own takes beyond the loaded network, at most, for the same number of
places at a time. ``--theory`` prints the theory alone, for every torch network of the roster and several sizes of the
patch (Figure 6.3 of the Krypton chapter), and what is left of it in batches of one size, by how many sizes there are.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _photos import jpegs
from _report import Report, load_average
from _weights import found_weights

from optimizer.occlusion import OcclusionGrid, stage_one_step, update_patches
from udfs.handlers import framework
from udfs.images import decode
from udfs.incremental import IncrementalNetwork, buckets
from udfs.occlusion import PRECISIONS, Occlusion, similarity
from udfs.occlusion.occluder import Occluder
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from optimizer.occlusion import UpdatePatches
    from udfs.handlers.torch import TorchModel


_PATCHES = (4, 8, 16, 32, 64)
_BUCKETS = (1, 2, 4, 6, 8)


@dataclass(frozen=True)
class Measured:
    """One network's figures.

    Attributes
    ----------
    naive, exact, approximate : float
        Seconds of a whole heat map.
    captum : float or None
        The same by ``captum.attr.Occlusion``, where it is installed.
    theory, uniform, rough : float
        Speed-ups by FLOPs: over all places, with patches of one size, and of the approximate heat map.
    error : float
        The largest difference of an output, over the largest output.
    ssim : float or None
        Of the approximate heat map, with real weights.
    contrast : float
        Of the exact heat map: its highest probability less its lowest.
    """

    naive: float
    exact: float
    approximate: float
    captum: float | None
    theory: float
    uniform: float
    rough: float
    error: float
    ssim: float | None
    contrast: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="vgg16,resnet18,inception_v3,mobilenet_v2")
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--stride", type=int, default=16)
    parser.add_argument("--sample", type=int, default=48, help="places that the naive way computes")
    parser.add_argument("--batch-size", type=int, default=32, help="places at a time, of all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--weights", default="auto", help="a file, for one model; else MobileNetV2's, others random")
    parser.add_argument("--tau", type=float, default=1.0, help="of the approximate way")
    parser.add_argument("--fraction", type=float, default=0.25, help="of the heat map, in drill-down's second stage")
    parser.add_argument("--target", type=float, default=2.0, help="speed-up by drill-down; 1 is without")
    parser.add_argument("--precision", choices=PRECISIONS, default="bfloat16", help="of the approximate way")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    parser.add_argument("--theory", action="store_true", help="only the theoretical speed-ups, at this stride")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.theory:
        _theory(options)
        return
    if options.memory_of:
        print(_peak(options.models, options, options.memory_of))
        return
    load = load_average()
    report = Report(
        f"Occlusion of one photograph, patch {options.patch}, stride {options.stride}, {options.threads} threads, "
        f"batches of {options.batch_size}; medians of {options.repeats}; load {load}"
    )
    found = {name: [_measure(name, options) for _ in range(options.repeats)] for name in options.models.split(",")}
    rows, rough = [], []
    for name, turns in found.items():
        naive, exact, approximate = (
            statistics.median(getattr(turn, kind) for turn in turns) for kind in ("naive", "exact", "approximate")
        )
        last = turns[-1]
        memory = {how: _peak_of(name, how, options) for how in ("naive", "exact")}
        rows.append(
            (
                name,
                f"{naive:.1f}",
                f"{exact:.1f}",
                f"{naive / exact:.2f}",
                f"{last.theory:.2f}",
                f"{last.uniform:.2f}",
                " / ".join(f"{memory[how] / 2**20:.0f}" for how in ("naive", "exact")),
                "",
            )
        )
        rough.append(
            (
                name,
                f"{approximate:.1f}",
                f"{naive / approximate:.2f}",
                f"{last.rough:.2f}",
                "-" if last.ssim is None else f"{last.ssim:.3f} (contrast {last.contrast:.2f})",
                "-" if last.captum is None else f"{last.captum:.1f}",
                "",
            )
        )
        report.ratio(f"exact_speedup.{name}", naive / exact, "seconds, naive / exact", 5.4 if name == "vgg16" else 1.0)
        report.ratio(
            f"exact_over_theory.{name}",
            naive / exact / last.theory,
            "speed-up measured / by FLOPs",
            0.85 if name in {"vgg16", "resnet18"} else None,
        )
        goal = 34.5 if name == "vgg16" and last.ssim is not None else None
        report.ratio(f"approx_speedup.{name}", naive / approximate, "seconds, naive / approximate", goal)
        if last.ssim is not None:
            report.ratio(
                f"approx_ssim.{name}", last.ssim, "likeness of the approximate heat map with the exact one", 0.9
            )
        if last.captum is not None:
            report.ratio(f"captum_speedup.{name}", last.captum / exact, "seconds, captum / exact")
        report.ratio(
            f"memory_over_naive.{name}", memory["exact"] / memory["naive"], "bytes at most, exact / naive", 1.0
        )
    columns = ("network", "naive, s", "exact, s", "speed-up", "theory", "theory, one size", "memory, MiB", "")
    report.table("A whole heat map; memory of the naive and the exact way", columns, rows)
    columns = ("network", "approximate, s", "speed-up", "theory", "SSIM", "captum, s", "")
    settings = (
        f"{options.precision}, tau {options.tau:g}, {options.fraction:.0%} of the heat map in the second stage, "
        f"target {options.target:g}"
    )
    report.table(f"Approximate ({settings}), and captum", columns, rough)
    worst = max(turn.error for turns in found.values() for turn in turns)
    report.ratio("max_abs_error", worst, "largest difference / largest output: at most 1e-5")
    report.show(as_json=options.json)


def _theory(options: argparse.Namespace) -> None:
    report = Report(f"Theoretical speed-ups of incremental inference by FLOPs, stride {options.stride}")
    networks = [card for card in map(roster.card, roster.names()) if card.framework == "torch" and card.kind == "image"]
    rows, sizes = [], []
    for card in networks:
        graph = framework("torch").trace(card.skeleton(), list(card.preprocessing.inputs)).graph
        cells = []
        for patch in _PATCHES:
            grid = OcclusionGrid((card.preprocessing.crop,) * 2, (patch,) * 2, (options.stride,) * 2)
            found = update_patches(graph, grid)
            cells.append(f"{found.speed_up:.2f}, {found.centre_speed_up:.2f}, {found.overall_speed_up:.2f}")
            report.ratio(f"theory.{card.name}.{patch}", found.speed_up, "FLOPs in full / incrementally, all places")
            if patch == options.patch:
                sizes.append((card.name, *(f"{_bucketed(found, count):.2f}" for count in _BUCKETS), ""))
        rows.append((card.name, *cells, ""))
    columns = ("network", *(f"patch {patch}" for patch in _PATCHES), "")
    report.table("Over all places, in the middle, and over all places with the layers in full", columns, rows)
    columns = ("network", *(f"{count} an axis" for count in _BUCKETS), "")
    report.table(f"Patch {options.patch}, with the layers in full, by buckets of places of one size", columns, sizes)
    report.show(as_json=options.json)


def _bucketed(patches: UpdatePatches, count: int) -> float:
    """Speed-up where the places along each axis have that many sizes (appendix B.3 has one)."""
    graph, flops = patches.graph, 0.0
    rows, columns = (buckets(patches, axis, count) for axis in (0, 1))
    for first in rows:
        for second in columns:
            share = len(first.places) * len(second.places) / patches.grid.count
            for name in patches.spans:
                area = first.lengths[name] * second.lengths[name] / (patches.extent(name, 0) * patches.extent(name, 1))
                flops += share * area * graph[name].flops
    return (patches.full_flops + patches.whole_flops) / (flops + patches.whole_flops)


def _opened(name: str, options: argparse.Namespace) -> tuple[TorchModel, OcclusionGrid, torch.Tensor, bool]:
    """The network, the patch's places, the photograph, and whether the weights are real."""
    torch.set_num_threads(options.threads)
    preprocessing = roster.card(name).preprocessing
    grid = OcclusionGrid((preprocessing.crop,) * 2, (options.patch,) * 2, (options.stride,) * 2)
    weights = found_weights(options.weights, name)
    traced = framework("torch").trace(roster.load(name, weights), list(preprocessing.inputs))
    model: TorchModel = traced.prepare(options.threads)
    pixels = torch.from_numpy(decode(jpegs(1)[0], preprocessing))[None]
    return model, grid, pixels.contiguous(memory_format=torch.channels_last), weights is not None


def _measure(name: str, options: argparse.Namespace) -> Measured:
    model, grid, image, is_real = _opened(name, options)
    network, fill, size = IncrementalNetwork(model, grid), torch.zeros(3), options.batch_size
    sample = np.zeros(grid.count, np.bool_)
    sample[np.random.default_rng(1).permutation(grid.count)[: options.sample]] = True
    sample = sample.reshape(grid.shape)
    next(network.naive(image, fill, batch_size=size))  # what a first run costs once
    seconds, theirs = _timed(lambda: network.naive(image, fill, batch_size=size, places=sample), grid)
    exact, ours = _timed(lambda: network.outputs(network.materialise(image), fill, batch_size=size), grid)
    error = np.abs(ours[sample] - theirs[sample]).max() / np.abs(theirs[sample]).max()
    step = stage_one_step(grid, options.target, options.fraction)
    occlusion = Occlusion(
        grid, (0.0,) * 3, "approximate", options.tau, step, options.fraction, size, precision=options.precision
    )
    occluder = Occluder(model, occlusion)
    started = time.perf_counter()
    found = occluder.heat_map(occluder.opened(image[0].numpy()))
    approximate = time.perf_counter() - started
    precise = occluder.settle(occluder.opened(image[0].numpy()))(ours.reshape(grid.count, -1))[:, found.target]
    patches = network.patches
    return Measured(
        naive=seconds * grid.count / sample.sum(),
        exact=exact,
        approximate=approximate,
        captum=_captum(model, grid, image, found.target, size),
        theory=patches.overall_speed_up,
        uniform=patches.uniform_speed_up,
        rough=occluder.patches.overall_speed_up * grid.count / occluder.places,
        error=float(error),
        ssim=similarity(precise.reshape(grid.shape), found.values) if is_real else None,
        contrast=float(np.ptp(precise)),
    )


def _captum(model: TorchModel, grid: OcclusionGrid, image: torch.Tensor, target: int, batch_size: int) -> float | None:
    """Seconds of a whole heat map by captum, from as many places as cover the image once."""
    if importlib.util.find_spec("captum") is None:
        return None
    from captum.attr import Occlusion as Reference  # noqa: PLC0415 - an optional package

    fused = model.fused()
    (source,), (output,) = fused.graph.inputs, fused.graph.outputs
    run = Reference(lambda batch: fused.tensors({source: batch}, [output])[output])
    window = (3, *grid.patch)
    places = int(
        np.prod([-(-(extent - patch) // patch) + 1 for extent, patch in zip(grid.image, grid.patch, strict=True)])
    )
    started = time.perf_counter()
    run.attribute(image, window, strides=window, baselines=0, target=target, perturbations_per_eval=batch_size)
    return (time.perf_counter() - started) * grid.count / places


def _peak(name: str, options: argparse.Namespace, how: str) -> int:
    """Bytes that this process takes at most for some batches, beyond the network."""
    model, grid, image, _ = _opened(name, options)
    network, fill, size = IncrementalNetwork(model, grid), torch.zeros(3), options.batch_size
    places = np.zeros(grid.count, np.bool_)
    places[np.random.default_rng(1).permutation(grid.count)[: 4 * size]] = True
    places = places.reshape(grid.shape)
    network.materialise(image)
    Path("/proc/self/clear_refs").write_text("5")  # Linux then counts the peak anew
    before = _status("VmRSS")
    if how == "naive":
        results = network.naive(image, fill, batch_size=size, places=places)
    else:
        results = network.outputs(network.materialise(image), fill, batch_size=size, places=places)
    for _ in results:
        pass
    return _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def _peak_of(name: str, how: str, options: argparse.Namespace) -> int:
    command = [sys.executable, __file__, "--models", name, "--memory-of", how]
    for option in ("patch", "stride", "batch_size", "threads", "weights"):
        command += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def _timed(run: Callable[[], Iterable[Any]], grid: OcclusionGrid) -> tuple[float, np.ndarray]:
    """Seconds, and the network's outputs by place."""
    started = time.perf_counter()
    found = [(index, next(iter(outputs.values()))) for index, outputs in run()]
    seconds = time.perf_counter() - started
    values = np.full((*grid.shape, found[0][1][0].numel()), np.nan, np.float32)
    for index, outputs in found:
        values[tuple(index.T)] = outputs.numpy().reshape(len(index), -1)
    return seconds, values


if __name__ == "__main__":
    main()
