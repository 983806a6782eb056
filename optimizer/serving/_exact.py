"""Fewest backends for a few sessions, proven: a cover by the largest groups that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.serving._demand import TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.serving._demand import Demand

__all__ = ["fewest_groups"]


def fewest_groups(sizes: Demand) -> list[list[int]] | None:
    """Partition sessions into as few groups that fit as possible.

    What fits still fits without one of its members. So all groups grow from smaller ones, and a smallest cover by the
    largest groups, from which repeated members are struck, is a smallest partition.

    Parameters
    ----------
    sizes : Demand
        Of all cycles.

    Returns
    -------
    list of list of int, or None
        None where a session fits nowhere.
    """
    largest = _largest_groups(sizes)
    count = sizes.takes.shape[0]
    everything = (1 << count) - 1
    covers = {0: ()}  # type: dict[int, tuple[int, ...]]
    while everything not in covers:
        grown: dict[int, tuple[int, ...]] = {}
        for covered, groups in covers.items():
            # Somebody has to cover the first that is missing.
            missing = (covered + 1) & ~covered
            for group in largest:
                if group & missing:
                    grown.setdefault(covered | group, (*groups, group))
        if not grown:
            return None
        covers = _undominated(grown)
    taken, partition = 0, []
    for group in covers[everything]:
        partition.append([item for item in range(count) if (group & ~taken) >> item & 1])
        taken |= group
    return partition


def _largest_groups(sizes: Demand) -> list[int]:
    """Find all groups that fit and cannot take another session, as bits."""
    count = sizes.takes.shape[0]
    feasible: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    level = {0: (np.zeros_like(sizes.cycles), np.zeros_like(sizes.cycles))}
    inner: set[int] = set()
    while level:
        grown = {}
        for group, (takes, memory) in level.items():
            for item in range(group.bit_length(), count):
                wider = group | 1 << item
                # Each part of it fits, or it does not.
                parts = [wider & ~(1 << other) for other in range(item) if group >> other & 1]
                if any(part not in feasible for part in parts):
                    continue
                sums = takes + sizes.takes[item], memory + sizes.memory[item]
                fits = (sums[0] <= sizes.cycles * (1 + TOLERANCE)) & (sums[1] <= sizes.room)
                if fits.any():
                    grown[wider] = sums
                    inner.update((group, *parts))
        feasible |= grown
        level = grown
    return [group for group in feasible if group not in inner]


def _undominated(covers: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Drop what covers less than another."""
    stay: list[int] = []
    for covered in sorted(covers, key=lambda bits: -bits.bit_count()):
        if not any(covered & wider == covered for wider in stay):
            stay.append(covered)
    return {covered: covers[covered] for covered in stay}
