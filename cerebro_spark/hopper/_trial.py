"""One configuration's training, as the driver knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from udfs.hopper import Record
from udfs.training import merge_sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from udfs.hopper import TrainReport

__all__ = ["Trial"]


@dataclass(slots=True)
class Trial:
    """State of one configuration's training.

    Parameters
    ----------
    config : str
        Its id.
    params : dict
    """

    config: str
    params: dict[str, Any]
    status: str = "running"
    traceback: str = ""
    digests: list[str] = field(default_factory=lambda: [""])
    visits: list[tuple[int, int]] = field(default_factory=list)
    unit_sums: list[dict[str, NDArray[np.float64]]] = field(default_factory=list)
    holder: str | None = None
    stored: dict[int, str] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    evaluated: dict[int, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    strikes: int = 0
    seconds: float = 0.0
    state_bytes: int = 0

    @property
    def version(self) -> int:
        """Units trained."""
        return len(self.visits)

    @property
    def running(self) -> bool:
        """Whether there is more to train."""
        return self.status == "running"

    @property
    def kept(self) -> int:
        """The last version that the store has; 0 is built from the seed, by anybody."""
        return max(
            (number for number in range(self.version, 0, -1) if self.stored.get(number) == self.digests[number]),
            default=0,
        )

    @property
    def durable(self) -> bool:
        """Whether the store has the last version."""
        return self.kept == self.version

    def done(self, epoch: int) -> tuple[int, ...]:
        """Partitions visited in an epoch, in that order."""
        return tuple(partition for at, partition in self.visits if at == epoch)

    def record(self, epoch: int) -> Record:
        """How the last checkpoint came to be, for the next unit to go on from."""
        sums = {name: part.tolist() for name, part in self.training_sums(epoch).items() if part.ndim == 1}
        return Record(self.config, self.version, self.digests[-1], tuple(self.visits), sums)

    def training_sums(self, epoch: int) -> dict[str, NDArray[np.float64]]:
        """Contributions to the training loss of an epoch."""
        merged: dict[str, NDArray[np.float64]] = {}
        for (at, _), sums in zip(self.visits, self.unit_sums, strict=True):
            if at == epoch:
                merged = merge_sums(merged, sums)
        return merged

    def trained(self, epoch: int, partition: int, worker: str, report: TrainReport) -> None:
        """Take the report of a unit of training."""
        self.visits.append((epoch, partition))
        self.digests.append(report.digest)
        self.unit_sums.append(report.sums)
        self.holder = worker
        self.seconds += report.seconds
        self.state_bytes = report.checkpoint_bytes

    def rewind(self) -> tuple[int, ...]:
        """Go back to what the store has; gives the partitions to be visited once more."""
        kept = self.kept
        lost = self.visits[kept:]
        del self.visits[kept:], self.unit_sums[kept:], self.digests[kept + 1 :]
        self.holder = None
        self.evaluated.clear()
        return tuple(partition for _, partition in lost)
