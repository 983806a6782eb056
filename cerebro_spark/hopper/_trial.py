"""State of one configuration's training on the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper._log import TrialLog
from udfs.hopper import Record
from udfs.metrics import merge_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from optimizer.procedures import Source
    from udfs.hopper import TrainedMember

__all__ = ["UNBROKEN", "Copy", "Death", "Trial"]

UNBROKEN = ("running", "paused", "stopped", "finished")
"""Statuses of configurations that no error of their own ended."""

# A trial during which this number of consecutive workers died is tried alone.
_SUSPECT = 2


@dataclass(frozen=True, slots=True)
class Death:
    """The loss of a worker while it had a trial.

    ``evaluated`` is the partition of an evaluation, ``None`` where the worker trained. Trials of one unit have the
    number of the ``loss`` in common; ``together`` if there were others, any of which may be at fault.
    """

    worker: str
    evaluated: int | None
    loss: int
    together: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """An earlier checkpoint that a worker still holds, to go back to should the last one be lost."""

    worker: str
    version: int


@dataclass(slots=True)
class Trial:
    """State of one configuration's training.

    ``copy`` is the checkpoint before that of the holder, where that one is not in the store. ``stored`` has the digests
    of the checkpoints in the store by version: several, where units were trained again on other partitions. ``deaths``
    are losses of workers since the trial last got past such a unit, ``unreadable`` the times in a row that the store
    did not give its checkpoint. ``granted`` epochs are those that the procedure decided so far; ``urgent`` trials get
    units before others. ``source`` is the origin of a clone or a child, and ``inherited`` describes the weights that a
    child has from it. ``follows`` names by epoch the trial in whose order it
    visits the shards where orders are fixed. ``hopping`` are epochs in which a team of workers came to nothing.
    """

    trial_id: str
    params: dict[str, Any]
    status: str = "running"
    traceback: str = ""
    digests: list[str] = field(default_factory=lambda: [""])
    visits: list[tuple[int, int]] = field(default_factory=list)
    unit_sums: list[dict[str, NDArray[np.float64]]] = field(default_factory=list)
    holder: str | None = None
    copy: Copy | None = None
    stored: dict[int, set[str]] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    evaluated: dict[int, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    unreadable: int = 0
    granted: int = 0
    is_paused: bool = False
    urgent: bool = False
    reason: str = ""
    source: Source | None = None
    follows: dict[int, str] = field(default_factory=dict)
    hopping: set[int] = field(default_factory=set)
    seconds: float = 0.0
    state_bytes: int = 0
    records: dict[int, Record] = field(default_factory=dict)
    log: TrialLog = field(default_factory=TrialLog)
    inherited: str = ""

    @property
    def version(self) -> int:
        """Number of units trained."""
        return len(self.visits)

    @property
    def running(self) -> bool:
        """True if the trial is in training, or waits for a decision."""
        return self.status == "running"

    @property
    def live(self) -> bool:
        """True if it may train more: it runs, or its procedure has paused it."""
        return self.status in {"running", "paused"}

    @property
    def failed(self) -> bool:
        """True if an error of its own ended it, not a decision."""
        return self.status not in UNBROKEN

    @property
    def suspect(self) -> bool:
        """True if it may be the reason for lost workers: one loss may have any reason, two in a row not."""
        return self.running and sum(not death.together for death in self.deaths) >= _SUSPECT

    @property
    def durable_version(self) -> int:
        """Last version that the store has; any worker builds version 0: from the seed and what the store has for it."""
        return max(
            (number for number in range(self.version, 0, -1) if self.digests[number] in self.stored.get(number, ())),
            default=0,
        )

    @property
    def durable(self) -> bool:
        """True if the store has the current version."""
        return self.durable_version == self.version

    @property
    def epoch(self) -> int:
        """Index of the epoch that it trains, which is the number of completed epochs."""
        return len(self.history)

    def done(self, epoch: int) -> tuple[int, ...]:
        """Return the partitions visited in an epoch, in order."""
        return tuple(partition for at, partition in self.visits if at == epoch)

    def record(self, epoch: int) -> Record:
        """Return the record of the current version, from which the next unit continues."""
        sums = {name: part.tolist() for name, part in self.training_sums(epoch).items() if part.ndim == 1}
        return Record(self.trial_id, self.version, self.digests[-1], tuple(self.visits), sums)

    def training_sums(self, epoch: int) -> dict[str, NDArray[np.float64]]:
        """Merge the contributions of an epoch's units to its training loss."""
        merged: dict[str, NDArray[np.float64]] = {}
        for (at, _), sums in zip(self.visits, self.unit_sums, strict=True):
            if at == epoch:
                merged = merge_sums(merged, sums)
        return merged

    def trained(self, epoch: int, partitions: Sequence[int], worker: str, report: TrainedMember) -> None:
        """Add the report of a trained unit, on one shard or, by a team, on several."""
        self.deaths.clear()
        self.unreadable = 0
        before = len(partitions) - 1
        self.visits += [(epoch, partition) for partition in partitions]
        # There are no states between the shards of one unit.
        self.digests += [*[""] * before, report.digest]
        self.unit_sums += [*[{} for _ in range(before)], report.sums]
        self.holder = worker
        self.seconds += report.seconds
        self.state_bytes = report.checkpoint_bytes
        self.inherited = report.inherited or self.inherited

    def was_evaluated(self, partition: int, sums: dict[str, NDArray[np.float64]]) -> None:
        """Add the report of an evaluation on a partition."""
        self.evaluated[partition] = sums
        self.deaths = [death for death in self.deaths if death.evaluated != partition]

    def was_stored(self, version: int, digest: str) -> None:
        """Record a checkpoint in the store."""
        self.stored.setdefault(version, set()).add(digest)

    def go_on_from(self, records: Sequence[Record]) -> None:
        """Take over the last of some checkpoints of the store; the others are kept to go back to.

        ``records`` are in order of their versions.
        """
        last = records[-1]
        self.visits = [*last.visits]
        self.digests = [""] * (last.version + 1)
        for record in records:
            if record.version <= last.version and record.visits == last.visits[: record.version]:
                self.digests[record.version] = record.digest
                self.was_stored(record.version, record.digest)
                self.records[record.version] = record
        self._sums_of(last)

    def forget_durable(self) -> None:
        """Forget the last checkpoint of the store, which is damaged: :meth:`rewind` goes back to the one before."""
        self.stored.pop(self.durable_version, None)

    def _sums_of(self, record: Record) -> None:
        # The record has the sums of its epoch put together: the last unit stands for them all.
        self.unit_sums = [{} for _ in record.visits]
        if self.unit_sums:
            self.unit_sums[-1] = record.arrays()

    def rewind(self) -> int:
        """Rewind to the copy, or to the durable version, of an earlier epoch maybe.

        Return the number of units that are to be done again.
        """
        version, holder = self.durable_version, None
        if self.copy is not None and self.copy.version > version:
            version, holder = self.copy.version, self.copy.worker
        self.copy = None
        lost = self.visits[version:]
        del self.visits[version:], self.unit_sums[version:], self.digests[version + 1 :]
        if version in self.records:
            self._sums_of(self.records[version])
        self.holder = holder
        self.evaluated.clear()
        if lost:
            # Epochs that are trained again are written again.
            del self.history[lost[0][0] :]
        return len(lost)
