"""Limits of a search that are counted, not measured: configurations and epochs."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.arguments import whole_or_none

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the configurations and the epochs of a procedure.

    A configuration that comes to the end of the epochs keeps what it has finished. Seconds and money are limited from
    outside, by :class:`OutOfTime`: a procedure has no clock.

    Parameters
    ----------
    max_configurations : int, optional
        Most configurations to start, clones included.
    max_total_epochs : int, optional
        Most epochs of all configurations together. Granted epochs that an ended configuration did not train are free
        again.

    Raises
    ------
    InvalidArgumentError
        A limit is not an integer of at least 1.
    """

    max_configurations: int | None = None
    max_total_epochs: int | None = None

    def __post_init__(self) -> None:
        whole_or_none("max_configurations", self.max_configurations, why="None is no limit.")
        whole_or_none("max_total_epochs", self.max_total_epochs, why="None is no limit.")
