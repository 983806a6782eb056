"""Results: what a procedure is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.procedures._requests import UserRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Ended", "EpochResult", "OutOfTime", "Result"]


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Metrics of a configuration after one of its epochs.

    Parameters
    ----------
    trial_id : str
    epoch : int
        Counted from 1 in the trial's own epochs; those of the trial that it was cloned from do not count.
    metrics : mapping of str to float
    """

    trial_id: str
    epoch: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a configuration that the procedure did not decide.

    Parameters
    ----------
    trial_id : str
    status : str
        ``"failed"``, ``"diverged"``, or another word for why. After these two the configuration counts as worse than
        any other; after another its finished epochs count.
    """

    trial_id: str
    status: str


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The limit of seconds or money is reached: the procedure ends all it has. A procedure itself has no clock.

    Parameters
    ----------
    reason : str
    """

    reason: str = "time is over"


Result = EpochResult | Ended | OutOfTime | UserRequest
