"""Batch scheduler of a backend: queues by group, round robin over groups, and a dispatch policy (section 3.5.2)."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.serving import meets_deadlines
from udfs.serving._open_models import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.serving import Policy

    Arrays = dict[str, NDArray[Any]]

__all__ = ["BatchScheduler", "Content", "Due", "Unread", "Variant", "Waiting"]

# Weight of the newest batch in a group's pace, and bounds of a batch's pace.
_NEWEST = 0.2
_FASTEST, _SLOWEST = 0.25, 20.0

# Milliseconds without a batch after which a group's delays are gradually forgotten, and milliseconds in which they
# halve. Otherwise a group that refuses every row because of one slow batch would never be measured again.
_KEEP_MS, _HALF_MS = 1000.0, 1000.0

# Share of the time until a deadline that a more accurate variant leaves for delays and for rows that arrive meanwhile.
_SLACK = 0.25

# Rows that the share of a variant must have saved before it is chosen again, so that variants change rarely.
_SAVED = 32.0

# Contents read ahead of a batch of one: the next one is read while it runs.
_LEAST_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row that waits for a batch."""

    number: int
    deadline_ms: float  # deadline in milliseconds of this process's clock
    session: str
    alone: bool = False  # True for a batch of its own


@dataclass(slots=True)
class Variant:
    """A variant of a group's model, and the rows that its share of the plan has left.

    ``share`` is the largest share of the rows for this variant and more accurate ones.
    """

    batch: int
    latencies: Sequence[float]
    share: float = 1.0
    saved: float = field(init=False)  # rows within the share that have not been used
    allowed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.allowed = self.share > 0
        self.saved = _SAVED if self.allowed else 0.0

    def count(self, rows: int, *, used: bool) -> None:
        """Record a batch, which used the share or not."""
        if self.share < 1:
            self.saved = min(_SAVED, self.saved + self.share * rows - (rows if used else 0))
            self.allowed = self.saved >= (0.0 if self.allowed else _SAVED) and self.share > 0


@dataclass(slots=True, eq=False)
class Content:
    """Content of one or several waiting rows: it is read once and is one row of a batch."""

    key: str  # digest of the content; "" if not computed
    inputs: Mapping[str, Any]  # inputs as received
    units: list[Waiting] = field(default_factory=list)
    arrays: Arrays = field(default_factory=dict)  # decoded inputs; empty before reading
    variant: int = 0  # variant for which it is read

    @property
    def deadline_ms(self) -> float:
        """Earliest deadline of its rows."""
        return min(unit.deadline_ms for unit in self.units)

    @property
    def alone(self) -> bool:
        """True if no other content may be in its batch."""
        return any(unit.alone for unit in self.units)


class _Queue:
    """Contents in the order of their deadlines."""

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
        """Add a row to a content; return ``False`` if the content is not in this queue."""
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
        """Remove and return the first contents."""
        first = self.contents[:count]
        del self.contents[:count], self.deadlines[:count]
        return first

    def keep(self, contents: Sequence[Content]) -> None:
        self.contents = sorted(contents, key=lambda content: content.deadline_ms)
        self.deadlines = [content.deadline_ms for content in self.contents]


@dataclass(slots=True)
class _Slot:
    group: str
    batch: int  # batch and latencies of the cheapest variant
    latencies: Sequence[float]
    variants: Sequence[Variant] = ()  # from the most accurate to the cheapest one; empty without a catalog
    variant: int = 0  # variant of the last batch, for which the next contents are read
    pace: float = 1.0
    unsteady: float = 0.0
    ended_ms: float | None = None  # end of the last batch; None before the first one and during a batch
    unread: _Queue = field(default_factory=_Queue)
    ready: _Queue = field(default_factory=_Queue)
    reading: Content | None = None
    by_key: dict[str, Content] = field(default_factory=dict)

    @property
    def contents(self) -> list[Content]:
        return [*self.unread, *self.ready, *([] if self.reading is None else [self.reading])]

    @property
    def has_room(self) -> bool:
        """True if more contents should be read. Contents read too early may be late by the time of their batch."""
        return len(self.ready) < max(self.batch, _LEAST_AHEAD)

    def paced(self, now_ms: float) -> list[float]:
        """Return latencies that most batches keep: under overload the head of a queue is always barely in time."""
        pace, unsteady = self.estimate(now_ms)
        return [(pace + unsteady) * ms for ms in self.latencies]

    def estimate(self, now_ms: float) -> tuple[float, float]:
        """Return the pace and its deviation; delays are forgotten while no batch runs."""
        idle_ms = 0.0 if self.ended_ms is None else max(0.0, now_ms - self.ended_ms - _KEEP_MS)
        kept = 0.5 ** (idle_ms / _HALF_MS)
        return (1 + (self.pace - 1) * kept if self.pace > 1 else self.pace), self.unsteady * kept

    def begin(self, now_ms: float) -> None:
        """Record the start of a batch."""
        self.pace, self.unsteady = self.estimate(now_ms)
        self.ended_ms = None

    def take_ready(self, count: int) -> list[Content]:
        """Remove and return the first contents for a batch, at most `count`.

        A content that runs alone is returned alone if it is the first; otherwise the batch ends before it.
        """
        first = list(itertools.islice(self.ready, count))
        end = next((place for place, content in enumerate(first) if content.alone), count)
        return self.ready.take(min(count, max(end, 1)))

    def forget(self, content: Content) -> None:
        if self.by_key.get(content.key) is content:
            del self.by_key[content.key]


@dataclass(frozen=True, slots=True)
class Unread:
    """Next content to read."""

    group: str = ""  # group of the content; "" without one
    content: Content | None = None
    dropped: tuple[Waiting, ...] = ()  # rows that can no longer be in time


@dataclass(frozen=True, slots=True)
class Due:
    """Next batch to run."""

    group: str = ""  # group of the batch; "" without one
    batch: tuple[tuple[Waiting, Row], ...] = ()
    size: int = 0  # number of different contents, which determines the cost of the batch
    dropped: tuple[Waiting, ...] = ()  # rows that can no longer be in time
    wake_ms: float | None = None  # time to ask again if no row arrives before, without a batch
    expected_ms: float = 0.0  # expected milliseconds of the batch
    variant: int = 0  # variant to run


class BatchScheduler:
    """Queues of a backend and the choice of its next batch. It has no clock, and only one thread may use it at a time.

    Rows are queued, read and run. The policy drops late rows twice: before they are read, so that no time is spent on
    images that will be late, and when a batch is made.

    Examples
    --------
    >>> from optimizer.serving import sliding_window
    >>> scheduler = BatchScheduler(sliding_window)
    >>> scheduler.place("cats", 2, [0.0, 3.0, 5.0])
    >>> [scheduler.put("cats", Waiting(number, 20.0, "cats"), "", {"x": number}) for number in range(3)]
    [True, True, True]
    >>> while (unread := scheduler.unread(0.0)).content is not None:
    ...     scheduler.read("cats", unread.content, unread.content.inputs)
    True
    True
    >>> [unit.number for unit, _ in scheduler.due(0.0).batch], [unit.number for unit in scheduler.unread(18.0).dropped]
    ([0, 1], [2])
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._slots: list[_Slot] = []
        self._turn = 0

    @property
    def waiting(self) -> int:
        """Number of rows in all queues."""
        return sum(len(content.units) for slot in self._slots for content in slot.contents)

    @property
    def pace(self) -> Mapping[str, float]:
        """Measured over profiled batch latency, by group."""
        return {slot.group: slot.pace for slot in self._slots}

    def place(self, group: str, batch: int, latencies_ms: Sequence[float], variants: Sequence[Variant] = ()) -> None:
        """Add a group, or change its batch size, latencies and variants.

        With variants, the batch size and the latencies are those of the last one, the cheapest: rows are dropped only
        if even this one is too late.
        """
        if variants:
            batch, latencies_ms = variants[-1].batch, variants[-1].latencies
        batch = min(batch, len(latencies_ms) - 1)
        slot = self._slot(group)
        if slot is None:
            self._slots.append(_Slot(group, batch, list(latencies_ms), variants))
            return
        slot.batch, slot.latencies = batch, list(latencies_ms)
        if [variant.share for variant in slot.variants] == [variant.share for variant in variants]:
            for old, new in zip(slot.variants, variants, strict=True):
                new.saved, new.allowed = old.saved, old.allowed
        slot.variants = variants

    def remove(self, group: str) -> tuple[Waiting, ...]:
        """Remove a group and return its waiting rows; a content being read comes back from :meth:`read`."""
        slot = self._slot(group)
        if slot is None:
            return ()
        self._slots.remove(slot)
        self._turn = 0
        return tuple(unit for queue in (slot.unread, slot.ready) for content in queue for unit in content.units)

    def put(self, group: str, unit: Waiting, key: str, inputs: Mapping[str, Any]) -> bool:
        """Queue a row by its deadline, joined with rows of the same key; return ``False`` without the group."""
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
        """Remove waiting rows."""
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
        """Return the next content to read: the earliest that can be in time, of groups that need more for a batch.

        Parameters
        ----------
        busy_ms : mapping of str to float, optional
            Expected milliseconds until each group can start its next batch.
        """
        busy_ms = busy_ms or {}
        dropped: list[Waiting] = []
        hungry = [slot for slot in self._slots if len(slot.unread) and slot.reading is None and slot.has_room]
        for slot in sorted(hungry, key=lambda slot: slot.unread.deadlines[0]):
            latencies = slot.paced(now_ms)
            # It runs after the whole batches of the ready contents, together with the rest of them.
            ahead, beside = divmod(len(slot.ready), slot.batch)
            start = now_ms + busy_ms.get(slot.group, 0.0) + ahead * latencies[slot.batch]
            gone, _, _ = self._dispatch(slot, slot.unread, start, [0.0, *latencies[beside + 1 :]], slot.batch - beside)
            dropped += gone
            for content in slot.unread.take(1):
                slot.reading, content.variant = content, slot.variant
                return Unread(slot.group, content, tuple(dropped))
        return Unread(dropped=tuple(dropped))

    def read(self, group: str, content: Content, arrays: Mapping[str, NDArray[Any]] | None) -> bool:
        """Store a decoded content, or drop it if `arrays` is ``None``; return ``False`` if its group was removed."""
        slot = self._slot(group)
        if slot is None or slot.reading is not content:
            return False
        slot.reading = None
        if arrays is None or not content.units:
            slot.forget(content)
        else:
            content.arrays = dict(arrays)
            if not slot.variants:  # another variant may read the inputs again
                content.inputs = {}
            slot.ready.add(content)
        return True

    def due(self, now_ms: float, group: str | None = None) -> Due:
        """Return the next batch, of the next group in turn or of one group."""
        dropped: list[Waiting] = []
        wake: float | None = None
        count = len(self._slots)
        for step in range(count):
            slot = self._slots[(self._turn + step) % count]
            if not len(slot.ready) or group not in {None, slot.group}:
                continue
            latencies: Sequence[float] = slot.paced(now_ms)
            variant = max(0, len(slot.variants) - 1)
            between = 0.0 if group is not None else self._others_ms(slot, now_ms)
            if (accurate := self._accurate(slot, now_ms, latencies, between)) is not None:
                variant, latencies, take, wait = accurate
            else:
                gone, take, wait = self._dispatch(slot, slot.ready, now_ms, latencies, slot.batch)
                dropped += gone
            if contents := slot.take_ready(take):
                for content in contents:
                    slot.forget(content)
                batch = tuple(
                    (unit, Row(unit.session, content.key, content.arrays, content.variant, content.inputs))
                    for content in contents
                    for unit in content.units
                )
                slot.begin(now_ms)
                self._turn = (self._turn + step + 1) % count
                size = len(contents)
                slot.variant = variant
                for place, each in enumerate(slot.variants):
                    each.count(size, used=variant <= place)
                return Due(
                    slot.group,
                    batch,
                    size,
                    tuple(dropped),
                    expected_ms=latencies[min(size, len(latencies) - 1)],
                    variant=variant,
                )
            if wait is not None and (wake is None or wait < wake):
                wake = wait
        return Due(dropped=tuple(dropped), wake_ms=wake)

    def took(self, group: str, batch: int, took_ms: float, now_ms: float, variant: int = 0) -> None:
        """Update a group's pace by the duration of a batch that ends now."""
        slot = self._slot(group)
        if slot is None:
            return
        slot.ended_ms = now_ms
        latencies = slot.variants[variant].latencies if variant < len(slot.variants) else slot.latencies
        if not 0 < batch < len(latencies):
            return
        share = min(max(took_ms / latencies[batch], _FASTEST), _SLOWEST)
        slot.unsteady += _NEWEST * (abs(share - slot.pace) - slot.unsteady)
        slot.pace += _NEWEST * (share - slot.pace)

    def _accurate(
        self, slot: _Slot, now_ms: float, cheapest_ms: Sequence[float], between_ms: float
    ) -> tuple[int, Sequence[float], int, float | None] | None:
        """Choose the most accurate variant after whose batch the cheapest one can still answer all other rows in time.

        Return its place, its latencies, and the decision of the policy; ``None`` for the cheapest variant.
        """
        pace = sum(slot.estimate(now_ms))
        for place, variant in enumerate(slot.variants[:-1]):
            if not all(each.allowed for each in slot.variants[place:-1]):
                continue
            latencies = [pace * ms for ms in variant.latencies]
            drop, take, wait = self._policy(slot.ready.deadlines, now_ms, latencies, variant.batch)
            if drop:
                continue
            reading = [] if slot.reading is None else [slot.reading.deadline_ms]
            deadlines = sorted([*slot.ready.deadlines[take:], *slot.unread.deadlines, *reading])
            behind = [now_ms + (1 - _SLACK) * (deadline - now_ms) for deadline in deadlines]
            start = now_ms + latencies[take] if take or wait is None else wait
            if meets_deadlines(behind, start, cheapest_ms, slot.batch, between_ms):
                return place, latencies, take, wait
        return None

    def _others_ms(self, slot: _Slot, now_ms: float) -> float:
        """Return the milliseconds of a batch of each other group whose rows wait."""
        if not slot.variants:
            return 0.0
        return sum(
            other.paced(now_ms)[min(other.batch, waiting)]
            for other in self._slots
            if other is not slot and (waiting := len(other.ready) + len(other.unread))
        )

    def _dispatch(
        self, slot: _Slot, queue: _Queue, now_ms: float, latencies_ms: Sequence[float], batch: int
    ) -> tuple[list[Waiting], int, float | None]:
        """Ask the policy and drop late rows; return the dropped rows, the batch size, and the time to wait until."""
        dropped: list[Waiting] = []
        while True:
            drop, take, wait = self._policy(queue.deadlines, now_ms, latencies_ms, batch)
            later = False
            for content in queue.take(drop):
                late = content.deadline_ms
                dropped += [unit for unit in content.units if unit.deadline_ms <= late]
                content.units = [unit for unit in content.units if unit.deadline_ms > late]
                if content.units:
                    # Other units with the same content have more time.
                    queue.add(content)
                    later = True
                else:
                    slot.forget(content)
            if not later:
                return dropped, take, wait

    def _slot(self, group: str) -> _Slot | None:
        return next((slot for slot in self._slots if slot.group == group), None)
