"""``Request``: a request on its way through the device and the cloud."""

from __future__ import annotations

import math
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from udfs.device._answer import Answer

__all__ = ["Request"]

# Longest wait for the cloud by a request without a deadline.
_CLOUD_SECONDS = 10.0


@dataclass(slots=True, eq=False)
class Request:
    """Request, with what it has been charged so far.

    Attributes
    ----------
    task : str
        Name of the task.
    image : bytes
        Encoded image.
    deadline_s : float
        Seconds from `submit` to the answer.
    alone : bool
        Whether the cloud failed to answer it, so that the device must.
    """

    task: str
    image: Any
    deadline_s: float = math.inf
    arrival: float = field(default_factory=time.monotonic)
    future: Future[Answer] = field(default_factory=Future)
    alone: bool = False
    joules: float = 0.0
    dollars: float = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the arrival."""
        return time.monotonic() - self.arrival

    def cloud_seconds(self, reserve: float) -> float:
        """Return how long the cloud may take, so that ``reserve`` seconds remain to answer without it."""
        remaining = self.deadline_s - self.elapsed
        return max(1e-3, min(_CLOUD_SECONDS, remaining - reserve if remaining > reserve else remaining))
