"""An application that runs: how long each of its calls may take, by the calls of its traffic."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from optimizer.serving import InfeasibleError, resplit

if TYPE_CHECKING:
    from optimizer.serving import CallTrace
    from vista_spark.serving._deployed_app import DeployedApp

__all__ = ["LiveApp"]

_LOG = logging.getLogger(__name__)

# What the requests before an epoch count beside those of it.
_FADE = 0.5


class LiveApp:
    """An application, and the calls of its traffic."""

    def __init__(self, deployed: DeployedApp) -> None:
        self.deployed = deployed
        self._lock = threading.Lock()
        self._traces: list[CallTrace] = []
        self._place(deployed)

    def _place(self, deployed: DeployedApp) -> None:
        self._names, self._budgets = deployed.counts.name, dict(deployed.split.budgets)
        self._reserves = deployed.split.reserves

    def count(self, trace: CallTrace) -> None:
        """Note the calls of a request that was answered."""
        with self._lock:
            self._traces.append(trace)

    def time_ms(self, node: tuple[str, int], left_ms: float) -> float:
        """Give the time of a call: what is left but for what comes after it, and never less than its own budget."""
        name = self._names(node)
        own = min(self._budgets.get(name, left_ms), left_ms)
        return max(own, left_ms - self._reserves.get(name, 0.0))

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
            self._place(one)
        return one.budgets
