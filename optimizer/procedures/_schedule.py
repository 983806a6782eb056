"""Schedules of hyperparameters along the lineage of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._errors import LogError, ProcedureError
from optimizer.procedures._plain_data import plain, read_params, written_params

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.procedures._ledger import Ledger

__all__ = ["Schedule", "Segment", "schedule_of"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Epochs with the same params."""

    params: Mapping[str, Any]
    epochs: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Sequence of segments, each of which continues with the weights of the one before.

    Raises
    ------
    InvalidArgumentError
        There is no segment, or one has no epochs, or params that are not plain data.

    Examples
    --------
    >>> print(Schedule((Segment({"lr": 0.1}, 2), Segment({"lr": 0.08}, 3))))
    epochs 1 to 2: {'lr': 0.1}
    epochs 3 to 5: {'lr': 0.08}
    """

    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if not self.segments:
            raise InvalidArgumentError("segments must have at least one segment, got none")
        for segment in self.segments:
            plain(segment.params)
            whole("epochs", segment.epochs)

    @property
    def epochs(self) -> int:
        """Epochs in all."""
        return sum(segment.epochs for segment in self.segments)

    def document(self) -> list[dict[str, Any]]:
        """Write the schedule as plain data."""
        return [{"params": written_params(segment.params), "epochs": segment.epochs} for segment in self.segments]

    @classmethod
    def of(cls, document: Any) -> Schedule:
        """Read a schedule from its document.

        Raises
        ------
        LogError
            The document is invalid.
        """
        if not isinstance(document, list):
            raise LogError(f"schedule must be a list of segments, got {document!r}")
        for segment in document:
            if not isinstance(segment, dict) or segment.keys() != {"params", "epochs"}:
                raise LogError(f"segment of a schedule must have params and epochs, got {segment!r}")
        try:
            return cls(tuple(Segment(read_params(segment["params"]), segment["epochs"]) for segment in document))
        except InvalidArgumentError as error:
            raise LogError(f"schedule must have valid segments, got {document!r}: {error}") from error

    def __str__(self) -> str:
        first, lines = 1, []
        for segment in self.segments:
            last = first + segment.epochs - 1
            lines.append(f"epochs {first} to {last}: {dict(segment.params)}")
            first = last + 1
        return "\n".join(lines)


def schedule_of(ledger: Ledger, trial_id: str, epoch: int | None = None) -> Schedule:
    """Return the params along the lineage of a configuration, through all that it was cloned from.

    Parameters
    ----------
    epoch : int, optional
        Last epoch of the schedule, counted within the trial; by default its last finished one.

    Raises
    ------
    ProcedureError
        There is no such trial, or it has not finished that epoch.
    """
    *ancestors, (trial, finished) = ledger.lineage(trial_id)
    last = finished if epoch is None else epoch
    if not 1 <= last <= finished:
        raise ProcedureError(f"epoch must be from 1 to {finished}, the finished epochs of {trial_id}, got {last}")
    return Schedule(tuple(Segment(parent.params, epochs) for parent, epochs in [*ancestors, (trial, last)]))
