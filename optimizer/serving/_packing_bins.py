"""Groups of sessions during packing, with their load in every duty cycle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optimizer.serving._duty_cycles import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.serving._duty_cycles import Demand

__all__ = ["Bins"]

# Load in a missing duty cycle, or in one in which the session is late: no sum with it fits.
_LATE = 10.0


class Bins:
    """Groups of sessions, each on a backend of one kind."""

    def __init__(self, demands: Sequence[Demand], counts: Sequence[float]) -> None:
        sessions = demands[0].takes.shape[0]
        longest = max(1, *(len(demand.cycles) for demand in demands))
        # Shares of the cycle: a group fits if they add up to at most 1.
        self.shares: NDArray[np.float64] = np.full((len(demands), sessions, longest), _LATE)
        self.rooms = [demand.room for demand in demands]
        limited = any(math.isfinite(room) for room in self.rooms)
        self.memory: NDArray[np.float64] | None = np.zeros_like(self.shares) if limited else None
        for kind, demand in enumerate(demands):
            known = len(demand.cycles)
            self.shares[kind, :, :known] = np.minimum(demand.takes / np.maximum(demand.cycles, 1e-300), _LATE)
            if self.memory is not None:
                self.memory[kind, :, :known] = demand.memory
        self.counts = list(counts)
        self.items: list[list[int]] = []
        self.kinds: list[int] = []
        self._full = np.zeros((16, longest))
        self._bytes = None if self.memory is None else np.zeros((16, longest))

    def __len__(self) -> int:
        return len(self.items)

    def occupancies(self, item: int) -> NDArray[np.float64]:
        """Return the load of each group with an item; infinite if the item does not fit."""
        used = len(self.items)
        if not used:
            return np.empty(0)
        alike = len(self.counts) == 1
        kinds = 0 if alike else np.array(self.kinds)
        full = self._full[:used] + self.shares[kinds, item]
        if self.memory is not None and self._bytes is not None:
            rooms = np.array([self.rooms[kind] for kind in self.kinds])[:, None]
            full = np.where(self._bytes[:used] + self.memory[kinds, item] <= rooms, full, np.inf)
        least: NDArray[np.float64] = full.min(1)
        least[least > 1 + TOLERANCE] = np.inf
        return least

    def add(self, group: int, item: int) -> None:
        """Add an item to a group."""
        self.items[group].append(item)
        self._full[group] += self.shares[self.kinds[group], item]
        if self.memory is not None and self._bytes is not None:
            self._bytes[group] += self.memory[self.kinds[group], item]

    def open(self, item: int) -> bool:
        """Open a group for an item on the first kind that serves it; return whether one does."""
        for kind, left in enumerate(self.counts):
            alone = self.shares[kind, item]
            if self.memory is not None:
                alone = np.where(self.memory[kind, item] <= self.rooms[kind], alone, np.inf)
            # Cycles may have been left out, so a session that fits in none of these may still be served alone.
            if left > 0 and (alone.min() <= 1 + TOLERANCE or len(self.counts) == 1):
                self.counts[kind] -= 1
                self._append(kind)
                self.add(len(self.items) - 1, item)
                return True
        return False

    def place(self, item: int) -> bool:
        """Add an item to the group that it fills most, or to a new one."""
        occupancies = self.occupancies(item)
        if len(occupancies) and np.isfinite(occupancies).any():
            self.add(int(np.argmax(np.where(np.isfinite(occupancies), occupancies, -1))), item)
            return True
        return self.open(item)

    def without(self, groups: set[int]) -> Bins:
        """Copy all but some groups, whose backends become free."""
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
        other._bytes = None if self._bytes is None else self._bytes[rows]
        return other

    def _append(self, kind: int) -> None:
        used = len(self.items)
        if used == len(self._full):
            self._full = np.concatenate([self._full, np.zeros_like(self._full)])
            if self._bytes is not None:
                self._bytes = np.concatenate([self._bytes, np.zeros_like(self._bytes)])
        self._full[used] = 0
        if self._bytes is not None:
            self._bytes[used] = 0
        self.items.append([])
        self.kinds.append(kind)
