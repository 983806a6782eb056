"""Division of the device's memory among tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.approximate._variant import Option

__all__ = ["plan_memory"]


def plan_memory(
    options: Sequence[Sequence[Option]], frequencies: Sequence[float], capacity: int
) -> list[Option | None]:
    """Choose an option for each task such that all fit together, greedily as for a multiple-choice knapsack.

    Each task starts with its smallest option; then the upgrade with the most accuracy per byte, weighted by the
    frequency of its task, is applied until no other fits. If the smallest options do not fit, the tasks with the least
    accuracy per byte get none.

    Parameters
    ----------
    options : sequence of sequence of Option
        Affordable options of each task, perhaps none.
    frequencies : sequence of float
        Requests per second of each task.
    capacity : int
        Bytes of memory.

    Returns
    -------
    list of Option or None
        Choice of each task.
    """
    curves = [_curve(task) for task in options]
    chosen = [0 if curve else -1 for curve in curves]
    free = capacity - sum(curve[0].memory_bytes for curve in curves if curve)

    def density(task: int) -> float:
        first = curves[task][0]
        return frequencies[task] * first.accuracy / max(1, first.memory_bytes)

    for task in sorted((task for task, curve in enumerate(curves) if curve), key=density):
        if free >= 0:
            break
        if curves[task][0].memory_bytes:
            free += curves[task][0].memory_bytes
            chosen[task] = -1
    while upgrade := _best_upgrade(curves, chosen, frequencies, free):
        task, place = upgrade
        free -= curves[task][place].memory_bytes - curves[task][chosen[task]].memory_bytes
        chosen[task] = place
    return [curve[place] if place >= 0 else None for curve, place in zip(curves, chosen, strict=True)]


def _best_upgrade(
    curves: Sequence[Sequence[Option]], chosen: Sequence[int], frequencies: Sequence[float], free: int
) -> tuple[int, int] | None:
    """Find the task and the place on its curve with the most accuracy per byte that fits."""
    best, gain = None, 0.0
    for task, place in enumerate(chosen):
        for larger in range(place + 1, len(curves[task]) if place >= 0 else 0):
            present, option = curves[task][place], curves[task][larger]
            extra = option.memory_bytes - present.memory_bytes
            if extra > free:
                break
            slope = frequencies[task] * (option.accuracy - present.accuracy) / extra
            if slope > gain:
                best, gain = (task, larger), slope
    return best


def _curve(options: Sequence[Option]) -> list[Option]:
    """Return the options that no other one beats in memory and accuracy, the smallest first."""
    curve: list[Option] = []
    for option in sorted(options, key=lambda each: (each.memory_bytes, -each.accuracy, each.joules)):
        if not curve or option.accuracy > curve[-1].accuracy:
            curve.append(option)
    return curve
