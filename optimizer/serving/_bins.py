"""Open backends while sessions are packed: how full each is in each duty cycle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optimizer.serving._demand import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.serving._demand import Demand

__all__ = ["Bins"]

# Of a duty cycle that is not there, or in which a session is late: a sum with it fits nowhere.
_LATE = 10.0


class Bins:
    """Groups of sessions, each on a backend of one kind.

    Parameters
    ----------
    demands : sequence of Demand
        Of the same sessions, one for each kind of backend.
    counts : sequence of float
        Backends of each kind.
    """

    def __init__(self, demands: Sequence[Demand], counts: Sequence[float]) -> None:
        sessions = demands[0].takes.shape[0]
        longest = max(1, *(len(one.cycles) for one in demands))
        # Shares of the cycle: a group fits where they add up to 1 at most.
        self.shares: NDArray[np.float64] = np.full((len(demands), sessions, longest), _LATE)
        self.rooms = [one.room for one in demands]
        limited = any(math.isfinite(room) for room in self.rooms)
        self.memory: NDArray[np.float64] | None = np.zeros_like(self.shares) if limited else None
        for kind, one in enumerate(demands):
            known = len(one.cycles)
            self.shares[kind, :, :known] = np.minimum(one.takes / np.maximum(one.cycles, 1e-300), _LATE)
            if self.memory is not None:
                self.memory[kind, :, :known] = one.memory
        self.counts = list(counts)
        self.items: list[list[int]] = []
        self.kinds: list[int] = []
        self._full = np.zeros((16, longest))
        self._held = None if self.memory is None else np.zeros((16, longest))

    def __len__(self) -> int:
        return len(self.items)

    def occupancies(self, item: int) -> NDArray[np.float64]:
        """Compute how full each group would be with an item; infinite where it does not fit."""
        used = len(self.items)
        if not used:
            return np.empty(0)
        alike = len(self.counts) == 1
        kinds = 0 if alike else np.array(self.kinds)
        full = self._full[:used] + self.shares[kinds, item]
        if self.memory is not None and self._held is not None:
            rooms = np.array([self.rooms[kind] for kind in self.kinds])[:, None]
            full = np.where(self._held[:used] + self.memory[kinds, item] <= rooms, full, np.inf)
        least: NDArray[np.float64] = full.min(1)
        least[least > 1 + TOLERANCE] = np.inf
        return least

    def add(self, group: int, item: int) -> None:
        """Put an item into a group."""
        self.items[group].append(item)
        self._full[group] += self.shares[self.kinds[group], item]
        if self.memory is not None and self._held is not None:
            self._held[group] += self.memory[self.kinds[group], item]

    def open(self, item: int) -> bool:
        """Open a group for an item on the first kind that serves it; tell whether there is one."""
        for kind, left in enumerate(self.counts):
            alone = self.shares[kind, item]
            if self.memory is not None:
                alone = np.where(self.memory[kind, item] <= self.rooms[kind], alone, np.inf)
            # Where cycles were left out it may fit in none of these, and still be served alone.
            if left > 0 and (alone.min() <= 1 + TOLERANCE or len(self.counts) == 1):
                self.counts[kind] -= 1
                self._append(kind)
                self.add(len(self.items) - 1, item)
                return True
        return False

    def place(self, item: int) -> bool:
        """Put an item into the group that it fills most, or into a new one."""
        occupancies = self.occupancies(item)
        if len(occupancies) and np.isfinite(occupancies).any():
            self.add(int(np.argmax(np.where(np.isfinite(occupancies), occupancies, -1))), item)
            return True
        return self.open(item)

    def without(self, groups: set[int]) -> Bins:
        """Copy all but some groups, whose backends are free again."""
        other = object.__new__(Bins)
        other.shares, other.memory, other.rooms = self.shares, self.memory, self.rooms
        stay = [group for group in range(len(self.items)) if group not in groups]
        other.items = [list(self.items[group]) for group in stay]
        other.kinds = [self.kinds[group] for group in stay]
        other.counts = list(self.counts)
        for group in groups:
            other.counts[self.kinds[group]] += 1
        rows = [*stay, *(len(self._full) - 1 for _ in groups)]
        other._full = self._full[rows]
        other._held = None if self._held is None else self._held[rows]
        return other

    def _append(self, kind: int) -> None:
        used = len(self.items)
        if used == len(self._full):
            self._full = np.concatenate([self._full, np.zeros_like(self._full)])
            if self._held is not None:
                self._held = np.concatenate([self._held, np.zeros_like(self._held)])
        self._full[used] = 0
        if self._held is not None:
            self._held[used] = 0
        self.items.append([])
        self.kinds.append(kind)
