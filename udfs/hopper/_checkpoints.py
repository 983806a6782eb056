"""What a run leaves in its store: of each configuration the last state, and how it came to it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from udfs.store import Store

__all__ = ["Checkpoints", "Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """How a configuration came to a state.

    Parameters
    ----------
    config : str
    version : int
        Units trained so far.
    digest : str
        Of the state's bytes.
    visits : tuple of (int, int)
        Epoch and partition of each unit, in the order of training.
    sums : mapping
        Contributions to the training loss of the epoch so far, as lists.
    """

    config: str
    version: int
    digest: str
    visits: tuple[tuple[int, int], ...] = ()
    sums: Mapping[str, list[float]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """Restore what ``asdict`` gave, also after a trip through JSON."""
        visits = tuple((int(epoch), int(partition)) for epoch, partition in data["visits"])
        sums = {name: [float(number) for number in part] for name, part in data["sums"].items()}
        return cls(str(data["config"]), int(data["version"]), str(data["digest"]), visits, sums)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """The sums as :class:`udfs.training.Metric` adds them up."""
        return {name: np.array(part, np.float64) for name, part in self.sums.items()}

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The states of one run in its store: two files each, of which the second says that the first is whole.

    Parameters
    ----------
    store : Store
    run : str
        Id of the run.
    """

    store: Store
    run: str

    def write(self, record: Record, state: bytes) -> None:
        """Keep a state.

        Raises
        ------
        udfs.store.StoreError
        """
        folder, name = self._folder(record.config), _name(record.version, record.digest)
        self.store.write(state, *folder, f"{name}.safetensors")
        self.store.write(json.dumps(record.to_dict()).encode(), *folder, f"{name}.json")

    def drop(self, config: str, below: int) -> None:
        """Delete the states of lower versions."""
        folder = self._folder(config)
        for name in self.store.list(*folder):
            if int(name.partition("-")[0]) < below:
                self.store.delete(*folder, name)

    def read(self, config: str, version: int, digest: str) -> bytes:
        """The state of a version."""
        return self.store.read(*self._folder(config), f"{_name(version, digest)}.safetensors")

    def last(self, config: str) -> Record | None:
        """How the last whole state came to be; ``None`` where there is none."""
        names = [name for name in self.store.list(*self._folder(config)) if name.endswith(".json")]
        if not names:
            return None
        return Record.from_dict(json.loads(self.store.read(*self._folder(config), max(names))))

    def _folder(self, config: str) -> tuple[str, ...]:
        return ("runs", self.run, "checkpoints", config)


def _name(version: int, digest: str) -> str:
    # A version may come to be twice: by a worker that was taken for lost, and by the one that trained it again.
    return f"{version:06d}-{digest[:8]}"
