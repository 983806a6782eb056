"""Figure 6.7: theory with projective field thresholding, and what it leaves out of the last incremental tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks.harness.charts import lines, panels
from benchmarks.occlusion._bench import Bench
from benchmarks.occlusion._theory import SEEDS_TAUS, thresholded, unweighted
from optimizer.occlusion import OcclusionGrid
from udfs.incremental import IncrementalNetwork

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options

__all__ = ["thresholding"]

_PATCHES = (8, 16, 32)

_SEEDS = {"vgg16": "especially low"}


def thresholding(options: Options, report: Report) -> Figure:
    """Figure 6.7 (a) and (b)."""
    speedups, errors, lost = {}, {}, {}
    rows = []
    for name in options.models:
        graph = unweighted(name)
        for patch in _PATCHES:
            found = [thresholded(name, graph, patch, options.stride, tau).centre_speedup for tau in SEEDS_TAUS]
            rows.append((f"{name}, patch {patch}", *(f"{speedup:.2f}" for speedup in found), "rises as tau falls"))
            if patch == options.patch:
                speedups[name] = found
                for tau, speedup in zip(SEEDS_TAUS, found, strict=True):
                    report.ratio(f"theory_at_tau.{name}.{tau}", speedup, "FLOPs in full / incrementally, in the middle")
    columns = ("network", *(f"tau {tau:g}" for tau in SEEDS_TAUS), "the seeds")
    report.table("Figure 6.7 (a): theoretical speed-up, patch in the middle", columns, rows)
    rows = []
    for name in options.models:
        bench = Bench(name, options)
        measured = [_errors(bench, photograph) for photograph in range(options.images)]
        errors[name], changed = (np.mean(part, axis=0) for part in zip(*measured, strict=True))
        lost[name] = errors[name] / changed
        weights = "real weights" if bench.has_weights else "random weights"
        rows.append(
            (
                f"{name}, {weights}",
                *(f"{error:.1e}, {share:.1%}" for error, share in zip(errors[name], lost[name], strict=True)),
                _SEEDS.get(name, "rises as tau falls"),
            )
        )
        for tau, share in zip(SEEDS_TAUS, lost[name], strict=True):
            report.ratio(f"lost_at_tau.{name}.{tau}", float(share), "mean square left out / of what the patch changes")
    title = (
        f"Figure 6.7 (b): mean square error of the last tensor that is computed in parts, and the same over the mean "
        f"square of what the patch changes there; patch {options.patch} in the middle of {options.images} photographs"
    )
    report.table(title, columns, rows)
    figure, (left, right) = panels("Figure 6.7", 2)
    lines(left, SEEDS_TAUS, speedups, "tau", f"theoretical speed-up, patch {options.patch}")
    lines(right, SEEDS_TAUS, lost, "tau", "share of the change that is left out")
    return figure


def _errors(bench: Bench, photograph: int) -> tuple[list[float], float]:
    """Mean square errors by tau, and the mean square of the exact change, in the last tensor computed in parts."""
    size, patch = bench.preprocessing.crop, bench.options.patch
    middle = ((size - patch) // 2, (size - patch) // 2 + patch)
    grid = OcclusionGrid((size,) * 2, (patch,) * 2, (patch,) * 2, (middle,) * 2)
    fused = bench.model.fused()
    whole_graph = fused.graph
    image, fill = bench.image(photograph), torch.zeros(3)
    try:
        patches = IncrementalNetwork(bench.model, grid).patches
        # A mean over places needs the patches alone, and no whole tensor.
        (last,) = patches.frontier or (whole_graph[patches.means[0]].inputs[0],)
        fused.graph = whole_graph.subgraph([last])  # the network up to there
        exact = IncrementalNetwork(bench.model, grid)
        ((_, outputs),) = exact.naive(image, fill, batch_size=1)
        change = outputs[last] - exact.materialise(image).outputs[last]
        errors = []
        for tau in SEEDS_TAUS:
            network = IncrementalNetwork(bench.model, grid, threshold=tau)
            ((_, found),) = network.outputs(network.materialise(image), fill, batch_size=1)
            errors.append(float((found[last] - outputs[last]).square().mean()))
    finally:
        fused.graph = whole_graph
    changed = float(change.square().mean())
    return errors, changed if changed > 0 else math.nan
