"""Figures of Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 5 and appendix C.

The confusion curves are not printed. These are chosen so that equation 5.1 gives the accuracies of Table 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.specialization import CompactProfile, Confusion, ConfusionCurve, Policy, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CHANGES", "TABLE_52", "TABLE_53", "TABLE_C1", "Row", "policy_of", "segments_of"]

_FPS = 6
_SIZES = (1, 5, 10, 15, 20)
_CURVES = {
    "objects": ((0.88, 0.06, 0.92), (0.75, 0.08, 0.90), (0.73, 0.10, 0.87), (0.63, 0.12, 0.84), (0.58, 0.14, 0.82)),
    "scenes": ((0.85, 0.06, 0.92), (0.64, 0.08, 0.88), (0.59, 0.10, 0.87), (0.52, 0.13, 0.82), (0.48, 0.15, 0.80)),
    "faces": ((0.98, 0.02, 0.97), (0.95, 0.02, 0.95), (0.925, 0.035, 0.95), (0.905, 0.045, 0.94), (0.885, 0.055, 0.93)),
}
# Classes, accuracy of the oracle, and GPU times in seconds: oracle, compact model (O2, S2, F2), retargeting. The time
# to retarget S2 is not printed; S2 is as small as F2.
_TASKS = {
    "objects": (1000, 0.689, 11.6e-3, 2.80e-3, 14.0),
    "scenes": (205, 0.581, 28.8e-3, 2.44e-3, 4.0),
    "faces": (2622, 0.958, 28.8e-3, 1.93e-3, 4.0),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of Table 5.2: segments of 5 minutes, speed-up and change of the accuracy in percentage points."""

    task: str
    segments: tuple[tuple[int, float], ...]
    speedup: float
    accuracy: float


_RANDOM = (0, 0.0)
TABLE_52 = (
    Row("objects", ((5, 0.8),), 11.6 / 6.0, 7.5),
    Row("objects", ((10, 0.8),), 11.7 / 7.4, 5.8),
    Row("objects", ((10, 0.9),), 11.6 / 5.9, 6.2),
    Row("objects", ((15, 0.9),), 11.6 / 9.1, 0.2),
    Row("objects", (_RANDOM,), 12.1 / 11.5, 0.0),
    Row("objects", ((10, 0.9), _RANDOM), 11.8 / 9.1, 2.3),
    Row("objects", ((15, 0.9), (5, 0.8)), 11.6 / 7.8, 3.3),
    Row("scenes", ((5, 0.8),), 28.9 / 12.0, 7.6),
    Row("scenes", ((10, 0.8),), 28.9 / 18.6, 0.6),
    Row("scenes", ((10, 0.9),), 28.8 / 15.4, 4.4),
    Row("scenes", ((15, 0.9),), 28.8 / 22.6, -0.6),
    Row("scenes", (_RANDOM,), 28.9 / 28.8, 0.0),
    Row("scenes", ((10, 0.9), _RANDOM), 28.8 / 22.6, -1.0),
    Row("scenes", ((15, 0.9), (5, 0.8)), 28.7 / 17.1, 1.9),
    Row("faces", ((5, 0.8),), 28.7 / 9.2, -0.1),
    Row("faces", ((5, 0.9),), 28.6 / 6.7, -0.8),
    Row("faces", ((10, 0.9),), 28.5 / 11.0, -1.1),
    Row("faces", (_RANDOM,), 1.0, 0.0),
    Row("faces", ((5, 0.9), _RANDOM), 28.5 / 17.6, 0.0),
    Row("faces", ((10, 0.9), (10, 0.8)), 28.5 / 10.4, -0.6),
)

# Seconds between two changes of the distribution, and the speed-up for faces.
CHANGES = ((10, 0.95), (20, 1.19), (30, 1.48))

# Video, special rate, cascade rate, and latency on the CPU in ms; the oracle takes 2576 ms, F2 takes 40.4 ms.
TABLE_53 = (
    ("Friends", 0.880, 0.075, 538),
    ("Good Will Hunting", 0.959, 0.034, 231),
    ("Ellen Show", 0.937, 0.048, 325),
    ("The Departed", 0.920, 0.103, 508),
    ("Ocean's Eleven / Twelve", 0.801, 0.180, 1009),
)

# N, a*, n, p, w, k, p_in, p_out
TABLE_C1: Sequence[tuple[int, float, int, float, int, int, float, float]] = (
    (1000, 0.68, 5, 0.9, 30, 2, 0.896, 6.52e-5),
    (1000, 0.68, 10, 0.9, 30, 2, 0.558, 6.53e-5),
    (1000, 0.68, 10, 0.9, 60, 2, 0.891, 2.64e-4),
    (1000, 0.68, 10, 0.7, 60, 2, 0.789, 4.80e-4),
    (1000, 0.68, 10, 0.7, 90, 2, 0.933, 1.08e-3),
    (205, 0.58, 10, 0.9, 90, 2, 0.959, 0.019),
    (205, 0.58, 10, 0.9, 90, 3, 0.872, 1.31e-3),
    (205, 0.58, 0, 0.0, 90, 3, float("nan"), 9.29e-3),
)


def policy_of(task: str, *, counts_training: bool = False) -> Policy:
    """Return the policy of a task on the GPU, for a stream of 6 frames per second.

    Parameters
    ----------
    task : str
        ``"objects"``, ``"scenes"`` or ``"faces"``.
    counts_training : bool
        Add the time of training to the cost, as if it took the only GPU. Default false, as in the thesis: training runs
        beside the stream, and the oracle answers the frames that arrive meanwhile.
    """
    classes, accuracy, oracle, compact, training = _TASKS[task]
    curve = ConfusionCurve(_SIZES, tuple(Confusion(*shares) for shares in _CURVES[task]))
    profile = CompactProfile(task, compact, curve, training_seconds=training if counts_training else 0.0)
    return Policy(
        classes=classes,
        accuracy=accuracy,
        seconds=oracle,
        compacts=[profile],
        training_frames=round(training * _FPS),
    )


def segments_of(row: Row, minutes: float) -> list[Segment]:
    """Return the segments of a row, each of some minutes."""
    return [Segment(dominant, skew, minutes) for dominant, skew in row.segments]
