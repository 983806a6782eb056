"""Occlusion heat maps: the whole network for every place of the patch, against only what the patch changes.

``python benchmarks/occlusion.py`` takes a photograph, a few networks, a patch of 16 every 16 pixels, and ends within
five minutes; ``--stride 4`` is the paper's setting. The naive way runs batches of whole images, in the layout that this
machine's convolutions are fastest with, on a random sample of the places, and its seconds are scaled to all of them;
its values are compared with the exact ones at those places. Weights are random, but MobileNetV2's: time does not depend
on them. Theory is in FLOPs, over all places, with the layers that are computed in full. ``--theory`` prints that alone,
for every torch network of the roster and several sizes of the patch: Figure 6.3 of the Krypton chapter, in seconds.
"""

from __future__ import annotations

import argparse
import statistics
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

from optimizer.patches import OcclusionGrid, update_patches
from udfs.handlers import handler
from udfs.images import decode
from udfs.incremental import IncrementalNetwork
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from udfs.handlers.torch import TorchModel


_PATCHES = (4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Measured:
    """One network's figures.

    Attributes
    ----------
    naive, exact : float
        Seconds of a whole heat map.
    theory, uniform : float
        Speed-ups by FLOPs: over all places, and with patches of one size.
    error : float
        The largest difference of an output, over the largest output.
    """

    naive: float
    exact: float
    theory: float
    uniform: float
    error: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="vgg16,resnet18,inception_v3,mobilenet_v2")
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--stride", type=int, default=16)
    parser.add_argument("--sample", type=int, default=48, help="places that the naive way computes")
    parser.add_argument("--batch-size", type=int, default=32, help="places at a time, of both")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    parser.add_argument("--theory", action="store_true", help="only the theoretical speed-ups, at this stride")
    options = parser.parse_args(arguments)
    if options.theory:
        _theory(options)
        return
    load = load_average()
    report = Report(
        f"Occlusion of one photograph, patch {options.patch}, stride {options.stride}, {options.threads} threads, "
        f"batches of {options.batch_size}; medians of {options.repeats}; load {load}"
    )
    found = {name: [_measure(name, options) for _ in range(options.repeats)] for name in options.models.split(",")}
    rows = []
    for name, turns in found.items():
        naive, exact = (statistics.median(getattr(turn, kind) for turn in turns) for kind in ("naive", "exact"))
        last = turns[-1]
        rows.append(
            (
                name,
                f"{naive:.1f}",
                f"{exact:.1f}",
                f"{naive / exact:.2f}",
                f"{last.theory:.2f}",
                f"{last.uniform:.2f}",
                f"{last.error:.1e}",
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
    columns = ("network", "naive, s", "exact, s", "speed-up", "theory", "theory, one size", "largest error", "")
    report.table("A whole heat map", columns, rows)
    worst = max(turn.error for turns in found.values() for turn in turns)
    report.ratio("max_abs_error", worst, "largest difference / largest output: at most 1e-5")
    report.show(as_json=options.json)


def _theory(options: argparse.Namespace) -> None:
    """Over all places, in the middle, and over all places with the layers that are computed in full."""
    report = Report(f"Theoretical speed-ups of incremental inference by FLOPs, stride {options.stride}")
    networks = [card for card in map(roster.card, roster.names()) if card.framework == "torch" and card.kind == "image"]
    rows = []
    for card in networks:
        graph = handler("torch").trace(card.skeleton(), list(card.preprocessing.inputs)).graph
        cells = []
        for patch in _PATCHES:
            grid = OcclusionGrid((card.preprocessing.crop,) * 2, (patch,) * 2, (options.stride,) * 2)
            found = update_patches(graph, grid)
            cells.append(f"{found.speed_up:.2f}, {found.centre_speed_up:.2f}, {found.overall_speed_up:.2f}")
            report.ratio(f"theory.{card.name}.{patch}", found.speed_up, "FLOPs in full / incrementally, all places")
        rows.append((card.name, *cells, ""))
    columns = ("network", *(f"patch {patch}" for patch in _PATCHES), "")
    report.table("Over all places, in the middle, and with the layers in full", columns, rows)
    report.show(as_json=options.json)


def _measure(name: str, options: argparse.Namespace) -> Measured:
    torch.set_num_threads(options.threads)
    preprocessing = roster.card(name).preprocessing
    traced = handler("torch").trace(roster.load(name, found_weights("auto", name)), list(preprocessing.inputs))
    model: TorchModel = traced.prepare(options.threads)  # type: ignore[assignment]
    side = preprocessing.crop
    grid = OcclusionGrid((side, side), (options.patch,) * 2, (options.stride,) * 2)
    network = IncrementalNetwork(model, grid)
    pixels = torch.from_numpy(decode(jpegs(1)[0], preprocessing))[None]
    image, fill = pixels.contiguous(memory_format=torch.channels_last), torch.zeros(3)
    sample = np.zeros(grid.count, np.bool_)
    sample[np.random.default_rng(1).permutation(grid.count)[: options.sample]] = True
    sample = sample.reshape(grid.shape)
    size = options.batch_size
    next(network.naive(image, fill, batch_size=size))  # what a first run costs once
    seconds, theirs = _timed(lambda: network.naive(image, fill, batch_size=size, places=sample), grid)
    exact, ours = _timed(lambda: network.outputs(network.materialise(image), fill, batch_size=size), grid)
    error = np.abs(ours[sample] - theirs[sample]).max() / np.abs(theirs[sample]).max()
    patches = network.patches
    naive = seconds * grid.count / sample.sum()
    return Measured(naive, exact, patches.overall_speed_up, patches.uniform_speed_up, float(error))


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
