"""Queues of a backend, and which batch comes next: round robin over groups, by a policy of dispatch (section 3.5.2)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optimizer.serving import Policy
    from udfs.serving._models import Row

__all__ = ["Due", "Rounds", "Waiting"]

# Weight of the newest batch in a group's pace, and how far from its profile a batch is believed to be.
_NEWEST = 0.2
_FASTEST, _SLOWEST = 0.25, 20.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A unit that was read and waits for a batch.

    Attributes
    ----------
    number : int
    deadline_ms : float
        By this process's clock.
    row : Row
    """

    number: int
    deadline_ms: float
    row: Row


@dataclass(slots=True)
class _Slot:
    group: str
    batch: int
    latencies: Sequence[float]
    pace: float = 1.0
    waiting: list[Waiting] = field(default_factory=list)
    deadlines: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done now.

    Attributes
    ----------
    group : str
        Of the batch; ``""`` without one.
    batch : tuple of Waiting
    dropped : tuple of Waiting
        They cannot be in time any more.
    wake_ms : float or None
        When to ask again if nothing arrives before, without a batch.
    """

    group: str = ""
    batch: tuple[Waiting, ...] = ()
    dropped: tuple[Waiting, ...] = ()
    wake_ms: float | None = None


class Rounds:
    """Duty cycles of a backend. It knows no clock, and is for one thread at a time.

    Parameters
    ----------
    policy : Policy
        One of :data:`optimizer.serving.POLICIES`.

    Examples
    --------
    >>> from optimizer.serving import sliding_window
    >>> from udfs.serving._models import Row
    >>> rounds = Rounds(sliding_window)
    >>> rounds.place("cats", 2, [0.0, 3.0, 5.0])
    >>> [rounds.put("cats", Waiting(number, 20.0, Row("cats", "", {}))) for number in range(3)]
    [True, True, True]
    >>> [one.number for one in rounds.due(0.0).batch], [one.number for one in rounds.due(18.0).dropped]
    ([0, 1], [2])
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._slots: list[_Slot] = []
        self._turn = 0

    @property
    def waiting(self) -> int:
        """Units in all queues."""
        return sum(len(slot.deadlines) for slot in self._slots)

    @property
    def pace(self) -> Mapping[str, float]:
        """By group, what batches took of what the profile says."""
        return {slot.group: slot.pace for slot in self._slots}

    def place(self, group: str, batch: int, latencies_ms: Sequence[float]) -> None:
        """Give a group a slot of the cycle, or its slot another batch."""
        slot = self._slot(group)
        if slot is None:
            self._slots.append(_Slot(group, batch, list(latencies_ms)))
        else:
            slot.batch, slot.latencies = batch, list(latencies_ms)

    def remove(self, group: str) -> tuple[Waiting, ...]:
        """Take a group out, and give what waited there."""
        slot = self._slot(group)
        if slot is None:
            return ()
        self._slots.remove(slot)
        self._turn = 0
        return tuple(slot.waiting)

    def put(self, group: str, unit: Waiting) -> bool:
        """Queue a unit by its deadline; ``False`` where the group is not here."""
        slot = self._slot(group)
        if slot is None:
            return False
        place = bisect_right(slot.deadlines, unit.deadline_ms)
        slot.deadlines.insert(place, unit.deadline_ms)
        slot.waiting.insert(place, unit)
        return True

    def cancel(self, numbers: Iterable[int]) -> None:
        """Forget units that wait."""
        gone = set(numbers)
        for slot in self._slots:
            if any(unit.number in gone for unit in slot.waiting):
                slot.waiting = [unit for unit in slot.waiting if unit.number not in gone]
                slot.deadlines = [unit.deadline_ms for unit in slot.waiting]

    def due(self, now_ms: float) -> Due:
        """Choose the next batch, of the next group in turn that has one."""
        dropped: list[Waiting] = []
        wake: float | None = None
        count = len(self._slots)
        for step in range(count):
            slot = self._slots[(self._turn + step) % count]
            if not slot.deadlines:
                continue
            latencies = [slot.pace * ms for ms in slot.latencies]
            drop, take, wait = self._policy(slot.deadlines, now_ms, latencies, slot.batch)
            dropped += slot.waiting[:drop]
            batch = tuple(slot.waiting[drop : drop + take])
            del slot.waiting[: drop + take], slot.deadlines[: drop + take]
            if batch:
                self._turn = (self._turn + step + 1) % count
                return Due(slot.group, batch, tuple(dropped))
            if wait is not None and (wake is None or wait < wake):
                wake = wait
        return Due(dropped=tuple(dropped), wake_ms=wake)

    def took(self, group: str, batch: int, took_ms: float) -> None:
        """Learn from a batch how fast this backend is just now."""
        slot = self._slot(group)
        if slot is None or not 0 < batch < len(slot.latencies):
            return
        share = min(max(took_ms / slot.latencies[batch], _FASTEST), _SLOWEST)
        slot.pace += _NEWEST * (share - slot.pace)

    def _slot(self, group: str) -> _Slot | None:
        return next((slot for slot in self._slots if slot.group == group), None)
