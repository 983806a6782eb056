"""Errors of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import CerebroError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HopperError", "ScheduleError", "unknown"]

_SHOWN = 12


class HopperError(CerebroError, ValueError):
    """A request that the scheduler cannot meet: an unknown name, a unit not in flight, a problem too large."""


class ScheduleError(CerebroError, ValueError):
    """A schedule that breaks an invariant of model hopper parallelism.

    Parameters
    ----------
    message : str
        Text of the error.
    invariant : {"completeness", "isolation", "exclusive access", "placement", "no overlap", "progress"}
        The broken invariant. ``"no overlap"`` is a unit that ends before it starts, ``"placement"`` one on a worker
        without its partition, ``"progress"`` a schedule that stops before its end.
    """

    def __init__(self, message: str, invariant: str) -> None:
        super().__init__(message, invariant)
        self.invariant = invariant

    def __str__(self) -> str:
        return f"{self.invariant}: {self.args[0]}"


def unknown(kind: str, name: object, known: Iterable[object]) -> HopperError:
    """Make the error for a name that does not exist."""
    names = [str(name) for name in known]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = ", ".join(names[:_SHOWN]) + more
    return HopperError(f"no {kind} {name!r}{nearest(str(name), names)}; there are {shown or 'none'}")
