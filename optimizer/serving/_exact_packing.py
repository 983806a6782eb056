"""Exact packing of a few sessions: a smallest cover by the largest groups that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.serving._duty_cycles import TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.serving._duty_cycles import Demand

__all__ = ["fewest_groups"]


def fewest_groups(sizes: Demand) -> list[list[int]] | None:
    """Partition sessions into as few groups that fit as possible; return ``None`` if a session fits nowhere.

    A group that fits also fits without one of its members. So all groups grow from smaller ones, and a smallest cover
    by the largest groups, without repeated members, is a smallest partition.
    """
    largest = _largest_groups(sizes)
    count = sizes.takes.shape[0]
    everything = (1 << count) - 1
    covers = {0: ()}  # type: dict[int, tuple[int, ...]]
    while everything not in covers:
        grown: dict[int, tuple[int, ...]] = {}
        for covered, groups in covers.items():
            # Some group must cover the first missing session.
            missing = (covered + 1) & ~covered
            for group in largest:
                if group & missing:
                    grown.setdefault(covered | group, (*groups, group))
        if not grown:
            return None
        covers = _undominated(grown)
    covered_before, partition = 0, []
    for group in covers[everything]:
        partition.append([item for item in range(count) if (group & ~covered_before) >> item & 1])
        covered_before |= group
    return partition


def _largest_groups(sizes: Demand) -> list[int]:
    """Return all groups, as bits, that fit and cannot take another session."""
    count = sizes.takes.shape[0]
    feasible: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    level = {0: (np.zeros_like(sizes.cycles), np.zeros_like(sizes.cycles))}
    inner: set[int] = set()
    while level:
        grown = {}
        for group, (takes, memory) in level.items():
            for item in range(group.bit_length(), count):
                wider = group | 1 << item
                # It can fit only if each of its parts does.
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
    """Drop covers that another cover includes."""
    stay: list[int] = []
    for covered in sorted(covers, key=lambda bits: -bits.bit_count()):
        if not any(covered & wider == covered for wider in stay):
            stay.append(covered)
    return {covered: covers[covered] for covered in stay}
