"""Queues of a backend, and which batch comes next: round robin over groups, by a policy of dispatch (section 3.5.2)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from udfs.serving._models import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.serving import Policy

    Arrays = dict[str, NDArray[Any]]

__all__ = ["Content", "Due", "Rounds", "Unread", "Waiting"]

# Weight of the newest batch in a group's pace, and how far from its profile a batch is believed to be.
_NEWEST = 0.2
_FASTEST, _SLOWEST = 0.25, 20.0

# Contents that are read ahead of a batch of one: while it runs, the next one is read.
_LEAST_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """A unit that waits for a batch.

    Attributes
    ----------
    number : int
    deadline_ms : float
        By this process's clock.
    session : str
    """

    number: int
    deadline_ms: float
    session: str


@dataclass(slots=True, eq=False)
class Content:
    """What one or several units ask about: read once, and one row of a batch.

    Attributes
    ----------
    key : str
        Equal for equal contents; ``""`` says nothing.
    inputs : dict of str to array
        As they came.
    units : list of Waiting
    arrays : dict of str to array
        As they were read; empty before.
    """

    key: str
    inputs: Mapping[str, Any]
    units: list[Waiting] = field(default_factory=list)
    arrays: Arrays = field(default_factory=dict)

    @property
    def deadline_ms(self) -> float:
        """The earliest one of its units."""
        return min(unit.deadline_ms for unit in self.units)


class _Queue:
    """Contents by their deadlines."""

    def __init__(self) -> None:
        self.contents: list[Content] = []
        self.deadlines: list[float] = []

    def __len__(self) -> int:
        return len(self.contents)

    def __iter__(self) -> Iterator[Content]:
        return iter(self.contents)

    def add(self, content: Content) -> None:
        deadline = content.deadline_ms
        place = bisect_right(self.deadlines, deadline)
        self.deadlines.insert(place, deadline)
        self.contents.insert(place, content)

    def join(self, content: Content, unit: Waiting) -> bool:
        """Have a content wait for another unit as well; ``False`` where it is not in this queue."""
        before = content.deadline_ms
        place = bisect_left(self.deadlines, before)
        while place < len(self.contents) and self.contents[place] is not content and self.deadlines[place] == before:
            place += 1
        if place == len(self.contents) or self.contents[place] is not content:
            return False
        content.units.append(unit)
        if unit.deadline_ms < before:
            del self.contents[place], self.deadlines[place]
            self.add(content)
        return True

    def take(self, count: int) -> list[Content]:
        """Take the first ones out."""
        taken = self.contents[:count]
        del self.contents[:count], self.deadlines[:count]
        return taken

    def keep(self, contents: Sequence[Content]) -> None:
        self.contents = sorted(contents, key=lambda content: content.deadline_ms)
        self.deadlines = [content.deadline_ms for content in self.contents]


@dataclass(slots=True)
class _Slot:
    group: str
    batch: int
    latencies: Sequence[float]
    pace: float = 1.0
    unsteady: float = 0.0
    unread: _Queue = field(default_factory=_Queue)
    ready: _Queue = field(default_factory=_Queue)
    reading: Content | None = None
    by_key: dict[str, Content] = field(default_factory=dict)

    @property
    def contents(self) -> list[Content]:
        return [*self.unread, *self.ready, *([] if self.reading is None else [self.reading])]

    @property
    def has_room(self) -> bool:
        """Whether more is to be read: what is read long before its batch may be late by then, and was read in vain."""
        return len(self.ready) < max(self.batch, _LEAST_AHEAD)

    @property
    def paced(self) -> list[float]:
        """Latencies that most batches keep: under overload the head of a queue is always just in time."""
        return [(self.pace + self.unsteady) * ms for ms in self.latencies]

    def forget(self, content: Content) -> None:
        if self.by_key.get(content.key) is content:
            del self.by_key[content.key]


@dataclass(frozen=True, slots=True)
class Unread:
    """What is to be read now.

    Attributes
    ----------
    group : str
        Of the content; ``""`` without one.
    content : Content or None
    dropped : tuple of Waiting
        They cannot be in time any more.
    """

    group: str = ""
    content: Content | None = None
    dropped: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done now.

    Attributes
    ----------
    group : str
        Of the batch; ``""`` without one.
    batch : tuple of (Waiting, Row)
    size : int
        Different contents among them: what the batch costs.
    dropped : tuple of Waiting
        They cannot be in time any more.
    wake_ms : float or None
        When to ask again if nothing arrives before, without a batch.
    expected_ms : float
        What the batch is expected to take.
    """

    group: str = ""
    batch: tuple[tuple[Waiting, Row], ...] = ()
    size: int = 0
    dropped: tuple[Waiting, ...] = ()
    wake_ms: float | None = None
    expected_ms: float = 0.0


class Rounds:
    """Duty cycles of a backend. It knows no clock, and is for one thread at a time.

    A unit is put, read and run. The policy says twice which ones are given up: before they are read, so that no time
    goes into images that are late when their batch comes, and when the batch is made.

    Parameters
    ----------
    policy : Policy
        One of :data:`optimizer.serving.POLICIES`.

    Examples
    --------
    >>> from optimizer.serving import sliding_window
    >>> rounds = Rounds(sliding_window)
    >>> rounds.place("cats", 2, [0.0, 3.0, 5.0])
    >>> [rounds.put("cats", Waiting(number, 20.0, "cats"), "", {"x": number}) for number in range(3)]
    [True, True, True]
    >>> while (unread := rounds.unread(0.0)).content is not None:
    ...     rounds.read("cats", unread.content, unread.content.inputs)
    True
    True
    >>> [unit.number for unit, _ in rounds.due(0.0).batch], [unit.number for unit in rounds.unread(18.0).dropped]
    ([0, 1], [2])
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._slots: list[_Slot] = []
        self._turn = 0

    @property
    def waiting(self) -> int:
        """Units in all queues."""
        return sum(len(content.units) for slot in self._slots for content in slot.contents)

    @property
    def pace(self) -> Mapping[str, float]:
        """By group, what batches took of what the profile says."""
        return {slot.group: slot.pace for slot in self._slots}

    def place(self, group: str, batch: int, latencies_ms: Sequence[float]) -> None:
        """Give a group a slot of the cycle, or its slot another batch."""
        batch = min(batch, len(latencies_ms) - 1)
        slot = self._slot(group)
        if slot is None:
            self._slots.append(_Slot(group, batch, list(latencies_ms)))
        else:
            slot.batch, slot.latencies = batch, list(latencies_ms)

    def remove(self, group: str) -> tuple[Waiting, ...]:
        """Take a group out, and give what waited there; what is being read comes back from :meth:`read`."""
        slot = self._slot(group)
        if slot is None:
            return ()
        self._slots.remove(slot)
        self._turn = 0
        return tuple(unit for queue in (slot.unread, slot.ready) for content in queue for unit in content.units)

    def put(self, group: str, unit: Waiting, key: str, inputs: Mapping[str, Any]) -> bool:
        """Queue a unit by its deadline, with others of its content if it has a key; ``False`` without the group."""
        slot = self._slot(group)
        if slot is None:
            return False
        same = slot.by_key.get(key) if key else None
        if same is not None:
            if same is slot.reading:
                same.units.append(unit)
                return True
            if slot.unread.join(same, unit) or slot.ready.join(same, unit):
                return True
        content = Content(key, inputs, [unit])
        if key:
            slot.by_key[key] = content
        slot.unread.add(content)
        return True

    def cancel(self, numbers: Iterable[int]) -> None:
        """Forget units that wait."""
        gone = set(numbers)
        if not gone:
            return
        for slot in self._slots:
            touched = [content for content in slot.contents if any(unit.number in gone for unit in content.units)]
            for content in touched:
                content.units = [unit for unit in content.units if unit.number not in gone]
                if not content.units:
                    slot.forget(content)
            if touched:
                for queue in (slot.unread, slot.ready):
                    queue.keep([content for content in queue if content.units])

    def unread(self, now_ms: float, busy_ms: Mapping[str, float] | None = None) -> Unread:
        """Choose what to read next: of the groups that have too little for a batch, the earliest that can be in time.

        Parameters
        ----------
        now_ms : float
        busy_ms : mapping of str to float, optional
            By group, what the batch that it waits for is expected to take still.
        """
        busy_ms = busy_ms or {}
        dropped: list[Waiting] = []
        hungry = [slot for slot in self._slots if len(slot.unread) and slot.reading is None and slot.has_room]
        for slot in sorted(hungry, key=lambda slot: slot.unread.deadlines[0]):
            latencies = slot.paced
            # It runs after whole batches of what is ready, with the rest of that.
            ahead, beside = divmod(len(slot.ready), slot.batch)
            start = now_ms + busy_ms.get(slot.group, 0.0) + ahead * latencies[slot.batch]
            gone, _, _ = self._dispatch(slot, slot.unread, start, [0.0, *latencies[beside + 1 :]], slot.batch - beside)
            dropped += gone
            for content in slot.unread.take(1):
                slot.reading = content
                return Unread(slot.group, content, tuple(dropped))
        return Unread(dropped=tuple(dropped))

    def read(self, group: str, content: Content, arrays: Mapping[str, NDArray[Any]] | None) -> bool:
        """Take a content that was read, or with ``None`` could not be; ``False`` where its group is gone."""
        slot = self._slot(group)
        if slot is None or slot.reading is not content:
            return False
        slot.reading = None
        if arrays is None or not content.units:
            slot.forget(content)
        else:
            content.inputs, content.arrays = {}, dict(arrays)
            slot.ready.add(content)
        return True

    def due(self, now_ms: float, group: str | None = None) -> Due:
        """Choose the next batch: of the next group in turn that has one, or of this group."""
        dropped: list[Waiting] = []
        wake: float | None = None
        count = len(self._slots)
        for step in range(count):
            slot = self._slots[(self._turn + step) % count]
            if not len(slot.ready) or group not in {None, slot.group}:
                continue
            latencies = slot.paced
            gone, take, wait = self._dispatch(slot, slot.ready, now_ms, latencies, slot.batch)
            dropped += gone
            if contents := slot.ready.take(take):
                for content in contents:
                    slot.forget(content)
                batch = tuple(
                    (unit, Row(unit.session, content.key, content.arrays))
                    for content in contents
                    for unit in content.units
                )
                self._turn = (self._turn + step + 1) % count
                return Due(
                    slot.group, batch, take, tuple(dropped), expected_ms=latencies[min(take, len(latencies) - 1)]
                )
            if wait is not None and (wake is None or wait < wake):
                wake = wait
        return Due(dropped=tuple(dropped), wake_ms=wake)

    def took(self, group: str, batch: int, took_ms: float) -> None:
        """Learn from a batch how fast this backend is just now."""
        slot = self._slot(group)
        if slot is None or not 0 < batch < len(slot.latencies):
            return
        share = min(max(took_ms / slot.latencies[batch], _FASTEST), _SLOWEST)
        slot.unsteady += _NEWEST * (abs(share - slot.pace) - slot.unsteady)
        slot.pace += _NEWEST * (share - slot.pace)

    def _dispatch(
        self, slot: _Slot, queue: _Queue, now_ms: float, latencies_ms: Sequence[float], batch: int
    ) -> tuple[list[Waiting], int, float | None]:
        """Ask the policy, and drop what it gives up; gives that, what it takes, and until when it waits."""
        dropped: list[Waiting] = []
        while True:
            drop, take, wait = self._policy(queue.deadlines, now_ms, latencies_ms, batch)
            later = False
            for content in queue.take(drop):
                late = content.deadline_ms
                dropped += [unit for unit in content.units if unit.deadline_ms <= late]
                content.units = [unit for unit in content.units if unit.deadline_ms > late]
                if content.units:
                    # Others ask about it too, and have more time.
                    queue.add(content)
                    later = True
                else:
                    slot.forget(content)
            if not later:
                return dropped, take, wait

    def _slot(self, group: str) -> _Slot | None:
        return next((slot for slot in self._slots if slot.group == group), None)
