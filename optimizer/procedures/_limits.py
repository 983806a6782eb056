"""Limits of a search that are counted, not measured: configurations and epochs."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.arguments import whole_or_none

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Most configurations that a procedure may start, and most epochs that it may train in all.

    A configuration that comes to the end of the epochs keeps what it has finished. Seconds and money are limited from
    outside, by :class:`OutOfTime`: a procedure has no clock.

    Parameters
    ----------
    max_configurations : int, optional
        Clones count.
    max_total_epochs : int, optional
        The sum over all configurations. Epochs that were granted and not finished, since the configuration ended
        before, are free again.

    Raises
    ------
    InvalidArgumentError
        A limit is no whole number, or below 1.
    """

    max_configurations: int | None = None
    max_total_epochs: int | None = None

    def __post_init__(self) -> None:
        whole_or_none("max_configurations", self.max_configurations, why="None is no limit")
        whole_or_none("max_total_epochs", self.max_total_epochs, why="None is no limit")
