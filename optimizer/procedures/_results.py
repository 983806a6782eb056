"""Results that a procedure receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.procedures._requests import Origin, UserRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Ended", "EpochResult", "OutOfTime", "Result"]


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Metrics of a configuration after one of its epochs.

    Parameters
    ----------
    epoch : int
        Number of the epoch from 1, without the epochs of the trial that it was cloned from.
    """

    trial_id: str
    epoch: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a configuration that the procedure did not decide.

    Parameters
    ----------
    status : str
        ``"failed"`` or ``"diverged"``, after which the configuration ranks below all others, or another status, after
        which its finished epochs count.
    """

    trial_id: str
    status: str


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """Limit of seconds or money that is reached, or the user's request to end the search.

    The procedure ends all configurations.
    """

    reason: str = "time is over"
    origin: Origin | None = None


Result = EpochResult | Ended | OutOfTime | UserRequest
