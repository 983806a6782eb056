"""State of the specialization of a stream: plain values, which JSON can hold."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["MOST_LABELS", "OTHER", "Expert", "SpecializationState"]

OTHER = -1
"""Answer of a specialised model that the input belongs to no dominant class."""

MOST_LABELS = 300
"""Labels that a state keeps, and the largest window."""


@dataclass(frozen=True, slots=True)
class Expert:
    """A compact model specialised to some classes.

    Parameters
    ----------
    name : str
        Name, unique in its stream.
    compact : int
        Place of the compact model in the policy.
    dominant : tuple of int
        Classes that it knows, sorted.
    frequencies : tuple of (int, float)
        Shares of all classes among the labels that it was made for, classes without a label left out. Default: none are
        known, and the dominant classes count as equally frequent.
    """

    name: str
    compact: int
    dominant: tuple[int, ...]
    frequencies: tuple[tuple[int, float], ...] = ()


@dataclass(slots=True)
class SpecializationState:
    """Memory of a stream between two frames.

    Parameters
    ----------
    frame : int
        Frames seen.
    phase : {"explore", "train", "trial", "specialized"}
        Phase of the next frame.
    labels : list of int
        Last answers in this epoch, ``S_j``.
    epoch, review : int
        Frames of this epoch, which begins with the labels that its first expert was chosen by, and the number of them
        at which an expert for more classes is considered.
    candidate : list of int
        Dominant classes for which training has seemed worthwhile.
    stable : int
        Successive frames for which it has.
    failures : int
        Trainings in succession that did not pay.
    debt : float
        Time of the last training, in seconds, until the phase after it ends.
    experts : list of Expert
        Experts, the last used one at the end.
    expert : Expert, optional
        Expert in training, trial or use.
    trained : int
        Experts that were ever trained.
    refused : list of str
        Names of the experts that failed a trial in this epoch.
    ready : int
        Frame at which the training ends.
    recent : list of bool
        For the last frames of the trial and of the specialised phase: did the expert answer with a dominant class?
    hits : int
        Answers of the expert in the trial that agree with the oracle.
    answered : int
        Answers of the expert in the specialised phase.
    burst : int
        Next answers to be checked, after a wrong one.
    checks : list of bool
        For the last checked answers: are they wrong?
    entry_skew : float
        Skew at the start of the trial.
    """

    frame: int = 0
    phase: str = "explore"
    labels: list[int] = field(default_factory=list)
    epoch: int = 0
    review: int = 0
    stable: int = 0
    candidate: list[int] = field(default_factory=list)
    failures: int = 0
    debt: float = 0.0
    experts: list[Expert] = field(default_factory=list)
    expert: Expert | None = None
    trained: int = 0
    refused: list[str] = field(default_factory=list)
    ready: int = 0
    answered: int = 0
    hits: int = 0
    recent: list[bool] = field(default_factory=list)
    burst: int = 0
    checks: list[bool] = field(default_factory=list)
    entry_skew: float = 0.0

    def to_json(self) -> str:
        """Return the state as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SpecializationState:
        """Return the state that :meth:`to_json` wrote."""
        values = json.loads(text)
        values["experts"] = [_expert(entry) for entry in values["experts"]]
        values["expert"] = _expert(values["expert"]) if values["expert"] else None
        return cls(**values)


def _expert(entry: dict[str, Any]) -> Expert:
    frequencies = tuple((label, share) for label, share in entry["frequencies"])
    return Expert(entry["name"], entry["compact"], tuple(entry["dominant"]), frequencies)
