"""Figures 3.8 to 3.11 of the Cerebro chapter, computed by scheduling and arithmetic.

The workload is the paper's: eight configurations of ResNet50 (293 MB serialized) for five epochs of ImageNet (250 GB,
1.2 million pictures) on eight workers with a network of 10 Gbit/s. A configuration's epoch on one worker takes what the
text gives: 1.77 hours for an epoch of 16 configurations on eight.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.hopper.schedules import HopWorkload, communication_costs, simulate
from optimizer.hopper import Hopper, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.harness.report import Report

__all__ = [
    "Absence",
    "batch_traffic",
    "drill_down",
    "epochs_with_losses",
    "remote_reads",
    "replicated_reads",
    "speedup",
]

_CONFIGS, _EPOCHS, _WORKERS = 8, 5, 8
_MODEL, _DATA, _ROWS = 293 * 10**6, 250 * 10**9, 1_200_000
_EPOCH_S = 1.77 * 3600 * 8 / 16
_HOP_S = _MODEL * 8 / 10**10


def speedup(configs: int, workers: int, *, epoch_s: float = _EPOCH_S, hop_s: float = _HOP_S) -> float:
    """Figure 3.8(A): speed-up of an epoch over one worker with all data, without hops.

    Parameters
    ----------
    configs, workers : int
    epoch_s, hop_s : float
        Of one configuration on one worker, and of its state to the next one.
    """
    unit = epoch_s / workers + (hop_s if workers > 1 else 0.0)
    return configs * epoch_s / simulate(HopWorkload(np.full((configs, workers), unit))).makespan


@dataclass(frozen=True)
class Absence:
    """Absence of a worker from one moment to another, in epochs of the undisturbed run."""

    worker: int
    begin: float
    end: float


def epochs_with_losses(
    absences: Sequence[Absence],
    *,
    copies: int,
    configs: int = _CONFIGS,
    workers: int = _WORKERS,
    epochs: int = _EPOCHS,
) -> list[float]:
    """Figure 3.8(B): each epoch's time over that of an undisturbed one, with the scheduler of a live run.

    What a lost worker had in hand is trained anew; with one copy its shard waits until it is back.
    """
    held = {place: [f"w{(place + copy) % workers}" for copy in range(copies)] for place in range(workers)}
    owns = {f"w{one}": [place for place, own in held.items() if f"w{one}" in own] for one in range(workers)}
    # A unit takes one; an undisturbed epoch has the longer of configurations and workers' shares.
    whole = max(configs, workers)
    changes = [(one.begin * whole, 0, f"w{one.worker}") for one in absences]
    changes += [(one.end * whole, 1, f"w{one.worker}") for one in absences]
    heapq.heapify(changes)
    away: set[str] = set()
    now, found = 0.0, []
    for _ in range(epochs):
        began = now
        hopper = Hopper([f"c{number}" for number in range(configs)], held)
        for worker in away:
            hopper.lose(worker)
        ends: list[tuple[float, str, Unit]] = []
        while not hopper.done:
            for worker in hopper.idle_workers:
                unit = hopper.next_unit(worker)
                if unit is not None:
                    heapq.heappush(ends, (now + 1.0, worker, unit))
            if changes and (not ends or changes[0][0] < ends[0][0]):
                now, back, worker = heapq.heappop(changes)
                if back:
                    away.discard(worker)
                    hopper.join(worker, owns[worker])
                else:
                    away.add(worker)
                    hopper.lose(worker)
                    ends = [one for one in ends if one[1] != worker]
                    heapq.heapify(ends)
            else:
                now, _, unit = heapq.heappop(ends)
                hopper.finish(unit, 1.0)
        found.append((now - began) / whole)
    return found


def batch_traffic(batch: int) -> tuple[int, int]:
    """Figure 3.9: bytes sent per epoch, by model hopping and by one all-reduce per step."""
    costs = communication_costs(
        configs=_CONFIGS, epochs=1, workers=_WORKERS, model_bytes=_MODEL, data_bytes=_DATA, batches=-(-_ROWS // batch)
    )
    return costs["model hopper"], costs["decentralized fine-grained"]


def remote_reads(scale: float) -> tuple[int, int]:
    """Figure 3.10: bytes from remote storage and between workers, of model hopping and of task parallelism."""
    data = int(_DATA * scale)
    costs = communication_costs(
        configs=_CONFIGS, epochs=_EPOCHS, workers=_WORKERS, model_bytes=_MODEL, data_bytes=data, batches=_ROWS
    )
    return data + costs["model hopper"], costs["task parallel, remote reads"]


def replicated_reads(copies: int) -> tuple[int, int]:
    """Figure 3.11: the same with each shard on some workers, which read local shards at no cost."""
    hopped, _ = remote_reads(1.0)
    return hopped - _DATA, int(_EPOCHS * _CONFIGS * _DATA * (1 - copies / _WORKERS)) + _CONFIGS * _MODEL


def drill_down(report: Report) -> None:
    """Put the figures into a report."""
    rows = [(str(p), *(f"{speedup(configs, p):.2f}" for configs in (_CONFIGS, 256))) for p in (1, 2, 4, 8, 16, 64)]
    report.table("Figure 3.8(A): speed-up of an epoch by workers", ("workers", "8 configurations", "256"), rows)
    lost = [Absence(1, 1.4, 3.0), Absence(4, 2.3, 3.0)]
    rows = [(str(copies), *(f"{one:.2f}" for one in epochs_with_losses(lost, copies=copies))) for copies in (3, 2, 1)]
    columns = ("copies", *(f"epoch {number}" for number in range(_EPOCHS)))
    report.table("Figure 3.8(B): epochs over an undisturbed one, w1 away from 1.4 to 3.0, w4 from 2.3", columns, rows)
    worst = max(epochs_with_losses(lost, copies=3))
    ours, other = remote_reads(1.0)
    report.ratio("speedup_8_workers", speedup(_CONFIGS, _WORKERS), "of 8 configurations; linear in Figure 3.8(A)")
    report.ratio("longest_epoch_with_losses", worst, "3 copies, up to two of 8 workers away; smaller is better")
    report.ratio("remote_reads_over_hopping", other / ours, "bytes, all data, 5 epochs; Figure 3.10 says over 10", 10)
    traffic = [
        *((f"3.9, an epoch, batch {batch}, all-reduce", batch_traffic(batch)) for batch in (32, 64, 128, 256, 512)),
        *((f"3.10, {scale:.0%} of the data, remote reads", remote_reads(scale)) for scale in (0.25, 0.5, 1.0)),
        *((f"3.11, {copies} copies, remote reads", replicated_reads(copies)) for copies in (1, 2, 4, 8)),
    ]
    rows = [
        (what, f"{ours / 10**9:,.0f}", f"{other / 10**9:,.0f}", f"{other / ours:.1f}")
        for what, (ours, other) in traffic
    ]
    report.table("Figures 3.9 to 3.11: GB over the network", ("figure", "model hopping", "the other", "ratio"), rows)
