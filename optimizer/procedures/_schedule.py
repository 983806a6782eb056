"""Schedules: the hyperparameters that one configuration had along its lineage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._errors import LogError, ProcedureError
from optimizer.procedures._plain import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.procedures._ledger import Ledger

__all__ = ["Schedule", "Segment", "schedule_of"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Epochs with the same params.

    Parameters
    ----------
    params : mapping
    epochs : int
    """

    params: Mapping[str, Any]
    epochs: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Segments in their order: train the first, go on from its weights with the params of the second, and so on.

    Parameters
    ----------
    segments : tuple of Segment

    Raises
    ------
    InvalidArgumentError
        There is none, or one has no epochs or no plain params.

    Examples
    --------
    >>> print(Schedule((Segment({"lr": 0.1}, 2), Segment({"lr": 0.08}, 3))))
    epochs 1 to 2: {'lr': 0.1}
    epochs 3 to 5: {'lr': 0.08}
    """

    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if not self.segments:
            raise InvalidArgumentError("segments is empty: a schedule has at least one")
        for segment in self.segments:
            plain(segment.params)
            whole("epochs", segment.epochs)

    @property
    def epochs(self) -> int:
        """Epochs in all."""
        return sum(segment.epochs for segment in self.segments)

    def document(self) -> list[dict[str, Any]]:
        """Write the schedule as plain data.

        Returns
        -------
        list of dict
        """
        return [{"params": plain(segment.params), "epochs": segment.epochs} for segment in self.segments]

    @classmethod
    def of(cls, document: Any) -> Schedule:
        """Read a schedule from its document.

        Parameters
        ----------
        document : list of mapping

        Returns
        -------
        Schedule

        Raises
        ------
        LogError
            It is no such document.
        """
        if not isinstance(document, list):
            raise LogError(f"{document!r} is no schedule: a list of segments")
        for segment in document:
            if not isinstance(segment, dict) or segment.keys() != {"params", "epochs"}:
                raise LogError(f"{segment!r} is no segment of a schedule: params and epochs")
        try:
            return cls(tuple(Segment(segment["params"], segment["epochs"]) for segment in document))
        except InvalidArgumentError as error:
            raise LogError(f"{document!r} is no schedule: {error}") from error

    def __str__(self) -> str:
        first, lines = 1, []
        for segment in self.segments:
            last = first + segment.epochs - 1
            lines.append(f"epochs {first} to {last}: {dict(segment.params)}")
            first = last + 1
        return "\n".join(lines)


def schedule_of(ledger: Ledger, trial_id: str, epoch: int | None = None) -> Schedule:
    """List the params that led to a configuration, through all that it was cloned from.

    Parameters
    ----------
    ledger : Ledger
        Of the procedure.
    trial_id : str
    epoch : int, optional
        Own epoch of the trial that the schedule ends with; by default its last finished one.

    Returns
    -------
    Schedule

    Raises
    ------
    ProcedureError
        There is no such trial, or it has not finished that epoch.
    """
    *ancestors, (trial, finished) = ledger.lineage(trial_id)
    last = finished if epoch is None else epoch
    if not 1 <= last <= finished:
        raise ProcedureError(f"{trial_id} has finished {finished} epochs: it has no schedule up to epoch {last}")
    return Schedule(tuple(Segment(parent.params, epochs) for parent, epochs in [*ancestors, (trial, last)]))
