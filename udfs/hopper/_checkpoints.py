"""Checkpoints of a run in its store: each trial's last one, and how it came to be."""

from __future__ import annotations

import json
from collections.abc import Mapping  # noqa: TC003 - a message's type hints are read when it is checked
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.store import Store

__all__ = ["Checkpoints", "Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """How a trial came to a checkpoint.

    Parameters
    ----------
    trial_id : str
    version : int
        Units trained so far.
    digest : str
        Digest of the checkpoint's bytes.
    visits : tuple of (int, int)
        Epoch and partition of each unit, in the order of training.
    sums : mapping
        Contributions to the training loss of the epoch so far, as lists.
    """

    trial_id: str
    version: int
    digest: str
    visits: tuple[tuple[int, int], ...] = ()
    sums: Mapping[str, list[float]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """Restore what :meth:`to_dict` gave, also after a trip through JSON."""
        visits = tuple((int(epoch), int(partition)) for epoch, partition in data["visits"])
        sums = {name: [float(number) for number in part] for name, part in data["sums"].items()}
        trial_id = data["trial_id"] if "trial_id" in data else data["config"]  # of version 0.1.0.dev0
        return cls(str(trial_id), int(data["version"]), str(data["digest"]), visits, sums)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Give the sums as :class:`udfs.training.Metric` adds them up."""
        return {name: np.array(part, np.float64) for name, part in self.sums.items()}

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one run in its store: two files each; the second says that the first is complete.

    Parameters
    ----------
    store : Store
    run : str
        Id of the run.
    """

    store: Store
    run: str

    def write(self, record: Record, state: bytes) -> None:
        """Write a checkpoint, then its record.

        Raises
        ------
        udfs.store.StoreError
        """
        folder, name = self._folder(record.trial_id), _name(record.version, record.digest)
        self.store.write(state, *folder, f"{name}.safetensors")
        self.store.write(json.dumps(record.to_dict()).encode(), *folder, f"{name}.json")

    def drop(self, trial_id: str, below: int) -> None:
        """Delete a trial's checkpoints of lower versions."""
        folder = self._folder(trial_id)
        for name in self.store.list(*folder):
            if int(name.partition("-")[0]) < below:
                self.store.delete(*folder, name)

    def read(self, trial_id: str, version: int, digest: str) -> bytes:
        """Read the checkpoint of a version."""
        return self.store.read(*self._folder(trial_id), f"{_name(version, digest)}.safetensors")

    def last(self, trial_id: str) -> Record | None:
        """Read the record of the last complete checkpoint; ``None`` where there is none."""
        names = [name for name in self.store.list(*self._folder(trial_id)) if name.endswith(".json")]
        if not names:
            return None
        return Record.from_dict(json.loads(self.store.read(*self._folder(trial_id), max(names))))

    def _folder(self, trial_id: str) -> tuple[str, ...]:
        return ("runs", self.run, "checkpoints", trial_id)


def _name(version: int, digest: str) -> str:
    # Two workers may write one version: the one that was taken for lost, and the one that trained it again.
    return f"{version:06d}-{digest[:8]}"
