"""Attached workers and the units that they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Assignment", "Attached"]


@dataclass(slots=True)
class Attached:
    """An attempt of a worker that is here."""

    name: str
    attempt: str
    location: str
    host: str
    seen: float
    assignment: Assignment | None = None
    drop: list[tuple[str, int]] = field(default_factory=list)
    abort: bool = False


@dataclass(slots=True)
class Assignment:
    """A unit that a worker has."""

    name: str
    kind: str
    trial: Trial
    epoch: int
    partition: int
    version: int
    began: float
    from_store: bool
    peer: str | None
