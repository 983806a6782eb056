"""Checkpoints of a run in its store: each trial's last one, those at ends of epochs, and their records."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping  # noqa: TC003 - a message's type hints are read when it is checked
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.documents import DamagedError, document, write_document
from udfs.names import check_name
from udfs.rpc import digest_of
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.store import Store

__all__ = ["Checkpoints", "Record"]

_LOG = logging.getLogger(__name__)

_REMEDY = "Selection.resume goes on from the checkpoint before"


@dataclass(frozen=True, slots=True)
class Record:
    """Record of the training up to a checkpoint."""

    trial_id: str
    version: int  # units trained so far
    digest: str  # digest of the checkpoint's bytes
    visits: tuple[tuple[int, int], ...] = ()  # epoch and partition of each unit, in the order of training
    # Contributions to the training loss of the epoch so far, as lists.
    sums: Mapping[str, list[float]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """Restore what :meth:`to_dict` gave, also after a trip through JSON."""
        visits = tuple((int(epoch), int(partition)) for epoch, partition in data["visits"])
        sums = {name: [float(number) for number in part] for name, part in data["sums"].items()}
        trial_id = data["trial_id"] if "trial_id" in data else data["config"]  # of version 0.1.0.dev0
        return cls(str(trial_id), int(data["version"]), str(data["digest"]), visits, sums)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the sums as :class:`udfs.metrics.Metric` adds them up."""
        return {name: np.array(part, np.float64) for name, part in self.sums.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one run in its store: two files each; the second says that the first is complete."""

    store: Store
    run: str

    def __post_init__(self) -> None:
        check_name(self.run, "a run")

    def write(self, record: Record, state: bytes) -> None:
        """Write a checkpoint, then its record."""
        folder, name = self._folder(record.trial_id), _name(record.version, record.digest)
        self.store.write(state, *folder, f"{name}.safetensors")
        write_document(self.store, record.to_dict(), *folder, f"{name}.json")

    def drop(self, trial_id: str, below: int, num_shards: int) -> None:
        """Delete a trial's checkpoints of lower versions, as a worker may.

        The last of them stays, to go back to should one be damaged; so do those at ends of epochs, ``num_shards`` units
        each, which the driver deletes by :meth:`retain`: others may be clones of them.
        """
        versions = self._versions(trial_id)
        before = max((version for version in versions.values() if version < below), default=0)
        self._delete(trial_id, [name for name, at in versions.items() if at < before and at % num_shards])

    def retain(self, trial_id: str, below: int, keep: Collection[int]) -> set[int]:
        """Delete a trial's checkpoints of lower versions but those to keep, as the driver may; return what is gone."""
        versions = {name: at for name, at in self._versions(trial_id).items() if at < below and at not in keep}
        self._delete(trial_id, versions)
        return set(versions.values())

    def read(
        self, trial_id: str, version: int, digest: str, allocate: Callable[[int], memoryview] | None = None
    ) -> bytes:
        """Read the checkpoint of a version, into memory of ``allocate`` if there is one.

        Raises
        ------
        udfs.documents.DamagedError
            Its bytes are not those of the digest.
        udfs.store.StoreError
            It is not there, or cannot be read.
        """
        place = self._place(trial_id, version, digest)
        state = self.store.read(*place, allocate=allocate)
        if digest_of(state) != digest:
            raise DamagedError(
                f"{self.store.url(*place)} is damaged (its bytes are not those of its digest): {_REMEDY}"
            )
        return state

    def url(self, record: Record) -> str:
        """Return the location of the bytes of a checkpoint."""
        return self.store.url(*self._place(record.trial_id, record.version, record.digest))

    def records(self, trial_id: str) -> list[Record]:
        """Read the records of the complete checkpoints, in order of their versions; damaged ones are left out."""
        folder = self._folder(trial_id)
        records = []
        for name in self.store.list(*folder):
            if name.endswith(".json"):
                try:
                    with document(self.store, *folder, name, remedy=_REMEDY) as data:
                        record = Record.from_dict(data)
                        if record.trial_id != trial_id or record.version != len(record.visits):
                            raise ValueError(f"it is of {record.trial_id} after {record.version} units")
                except DamagedError as error:
                    _LOG.warning("%s", error)
                else:
                    records.append(record)
        return records

    def intact(self, record: Record) -> bool:
        """Read a checkpoint, and say whether its bytes are those of its digest."""
        try:
            self.read(record.trial_id, record.version, record.digest)
        except (DamagedError, StoreError) as error:
            _LOG.warning("%s", error)
            return False
        return True

    def last(self, trial_id: str) -> Record | None:
        """Read the record of the last complete checkpoint; ``None`` where there is none."""
        records = self.records(trial_id)
        return records[-1] if records else None

    def _versions(self, trial_id: str) -> dict[str, int]:
        return {name: int(name.partition("-")[0]) for name in self.store.list(*self._folder(trial_id))}

    def _delete(self, trial_id: str, names: Collection[str]) -> None:
        # Records first: a checkpoint without one is not complete, a record without its checkpoint would be damaged.
        for name in sorted(names, key=lambda name: not name.endswith(".json")):
            self.store.delete(*self._folder(trial_id), name)

    def _place(self, trial_id: str, version: int, digest: str) -> tuple[str, ...]:
        return (*self._folder(trial_id), f"{_name(version, digest)}.safetensors")

    def _folder(self, trial_id: str) -> tuple[str, ...]:
        return ("runs", self.run, "checkpoints", check_name(trial_id, "a configuration"))


def _name(version: int, digest: str) -> str:
    # Two workers may write the same version: one that was considered lost, and one that trained the unit again.
    return f"{version:06d}-{digest[:8]}"
