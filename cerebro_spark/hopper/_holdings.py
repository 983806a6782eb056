"""Partitions of each worker, while workers attach and detach."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["Holdings"]


@dataclass(frozen=True, slots=True)
class _Awaited:
    since: float
    partitions: set[int]


class Holdings:
    """Partitions of attached workers and of awaited ones.

    A lost worker is awaited with its partitions, for it is often back within a second and has them on its node; if it
    is not, others adopt them. A worker that attaches without partitions of its own gets some when an epoch of a trial
    is over, or at once where those of a lost worker are available. ``workers`` are those awaited at first, with their
    partitions; one that several of them have has so many copies.

    Examples
    --------
    >>> holdings = Holdings({"w0": [0, 2], "w1": [1]})
    >>> for name in ("w0", "w1", "w2"):
    ...     holdings.attach(name)
    >>> sorted(holdings.level())
    ['w0', 'w2']
    >>> {name: sorted(holdings[name]) for name in ("w0", "w1", "w2")}
    {'w0': [0], 'w1': [1], 'w2': [2]}
    """

    def __init__(self, workers: Mapping[str, Collection[int]]) -> None:
        self._copies = Counter(number for partitions in workers.values() for number in partitions)
        self._present: dict[str, set[int]] = {}
        self._awaited = {name: _Awaited(math.inf, set(partitions)) for name, partitions in workers.items()}

    def __getitem__(self, name: str) -> set[int]:
        """Return the partitions of an attached worker."""
        return self._present[name]

    @property
    def complete(self) -> bool:
        """True if every worker that was awaited at first has been attached once."""
        return all(awaited.since < math.inf for awaited in self._awaited.values())

    def attach(self, name: str) -> None:
        """Attach a worker, with the partitions that it was awaited with, or with none."""
        awaited = self._awaited.pop(name, None)
        self._present[name] = awaited.partitions if awaited is not None else set()

    def detach(self, name: str, now: float) -> None:
        """Detach a lost worker, and await it from now on."""
        self._awaited[name] = _Awaited(now, self._present.pop(name))

    def give_up(self, name: str) -> None:
        """Await a worker no longer."""
        self._awaited.pop(name, None)

    def expired(self, since: float) -> list[str]:
        """Stop awaiting the workers that were lost before a time, and return their names."""
        late = [name for name, awaited in self._awaited.items() if awaited.since < since]
        for name in late:
            self.give_up(name)
        return late

    def adopt(self) -> list[str]:
        """Reassign orphaned partitions to attached workers.

        Return the workers that have other partitions than before.
        """
        if not self._present:
            return []
        changed = []
        for name in [name for name, partitions in self._present.items() if not partitions]:
            lost = [other for other, awaited in self._awaited.items() if awaited.since < math.inf]
            if lost:
                self._present[name] = self._awaited.pop(lost[0]).partitions
                changed.append(name)
        for number in sorted(self._copies):
            if not self._holders(number):
                heir = min(self._present, key=lambda name: len(self._present[name]))
                self._present[heir].add(number)
                changed.append(heir)
        return list(dict.fromkeys(changed))

    def level(self) -> list[str]:
        """Restore the copies that each partition had at first, and spread the partitions evenly over the workers.

        Return the attached workers that have other partitions than before.
        """
        before = {name: frozenset(partitions) for name, partitions in self._present.items()}
        self._restore_copies()
        self._spread()
        return [name for name, partitions in self._present.items() if partitions != before[name]]

    def _restore_copies(self) -> None:
        for number, copies in sorted(self._copies.items()):
            wanted = min(copies, len(self._present) + len(self._awaited))
            holders = self._holders(number)
            here = sorted((name for name in holders if name in self._present), key=self._size)
            for name in here[len(here) - max(0, len(holders) - wanted) :]:
                self._present[name].discard(number)
            others = sorted((name for name in self._present if name not in holders), key=self._size)
            for name in others[: max(0, wanted - len(holders))]:
                self._present[name].add(number)

    def _spread(self) -> None:
        while self._present:
            fullest, emptiest = max(self._present, key=self._size), min(self._present, key=self._size)
            if self._size(fullest) - self._size(emptiest) <= 1:
                return
            number = max(self._present[fullest] - self._present[emptiest])
            self._present[fullest].discard(number)
            self._present[emptiest].add(number)

    def _size(self, name: str) -> int:
        return len(self._present[name])

    def _holders(self, number: int) -> list[str]:
        here = [name for name, partitions in self._present.items() if number in partitions]
        return here + [name for name, awaited in self._awaited.items() if number in awaited.partitions]
