"""An application that runs: how long each of its calls may take, by the calls of its traffic."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.serving import InfeasibleError, resplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.serving import CallTrace
    from vista_spark.serving._deployed_app import DeployedApp

__all__ = ["LiveApp"]

_LOG = logging.getLogger(__name__)

# What the requests before an epoch count beside those of it.
_FADE = 0.5


@dataclass(frozen=True, slots=True)
class _Times:
    """Names of calls, and the milliseconds of each: replaced as a whole, for requests read it meanwhile."""

    name: Callable[[tuple[str, int]], str]
    budgets: Mapping[str, float]
    reserves: Mapping[str, float]

    @classmethod
    def of(cls, deployed: DeployedApp) -> _Times:
        return cls(deployed.counts.name, deployed.split.budgets, deployed.split.reserves)


class LiveApp:
    """An application, and the calls of its traffic.

    Parameters
    ----------
    deployed : DeployedApp
        Its counts and its split follow the traffic.
    """

    def __init__(self, deployed: DeployedApp) -> None:
        self.deployed = deployed
        self._lock = threading.Lock()
        self._traces: list[CallTrace] = []
        self._times = _Times.of(deployed)

    @property
    def name(self) -> str:
        """The application's."""
        return self.deployed.served.name

    def count(self, trace: CallTrace) -> None:
        """Note the calls of a request that was answered."""
        with self._lock:
            self._traces.append(trace)

    def time_ms(self, node: tuple[str, int], left_ms: float) -> float:
        """Give the time of a call: what is left but for what comes after it, and never less than its own budget."""
        times = self._times
        name = times.name(node)
        own = min(times.budgets.get(name, left_ms), left_ms)
        return max(own, left_ms - times.reserves.get(name, 0.0))

    def follow(self, seconds: float) -> dict[str, float]:
        """Split the deadline by the calls so far, where that pays; gives the budgets of the sessions."""
        with self._lock:
            traces, self._traces = self._traces, []
        one = self.deployed
        if traces:
            counts = one.counts.faded(_FADE)
            for trace in traces:
                counts.add(trace)
            try:
                query = counts.query(one.app.name, one.profiles, one.app.slo_ms, len(traces) / seconds)
                one.split = resplit(one.split, query)
                one.counts = counts
            except InfeasibleError as error:
                _LOG.warning("the budgets of application %s stay: %s", one.app.name, error)
            self._times = _Times.of(one)
        return one.budgets
