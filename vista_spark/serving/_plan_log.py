"""Record of a server's plans in an MLflow experiment."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from udfs.driver import check_tracking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.serving import ServingPlan

__all__ = ["NoLog", "PlanLog", "PlanRecorder"]

_LOG = logging.getLogger(__name__)


class PlanRecorder(Protocol):
    """Interface for recording plans."""

    def planned(self, number: int, why: str, plan: ServingPlan | None, numbers: Mapping[str, float]) -> None:
        """Record a plan; ``None`` means no backend."""

    def close(self) -> None:
        """Close the record."""


class NoLog:
    """Recorder that discards plans."""

    def planned(self, number: int, why: str, plan: ServingPlan | None, numbers: Mapping[str, float]) -> None:
        """Discard the plan."""

    def close(self) -> None:
        """Do nothing."""


class PlanLog:
    """MLflow run with a server's plans: ``plans/00001.txt`` with the reason, and metrics by the number of the plan.

    Errors of the tracking server are logged and do not stop the server. The experiment is created if it does not exist.
    Raise TrackingError if the server does not answer, and MlflowException if the run cannot be created.
    """

    def __init__(self, experiment: str, parameters: Mapping[str, Any]) -> None:
        import mlflow  # takes a second that only tracking should cost

        check_tracking(experiment)
        self._client = mlflow.MlflowClient()
        known = self._client.get_experiment_by_name(experiment)
        chosen = self._client.create_experiment(experiment) if known is None else known.experiment_id
        self._run = self._client.create_run(chosen, run_name="serving").info.run_id
        for name, value in parameters.items():
            self._client.log_param(self._run, name, value)

    @property
    def run_id(self) -> str:
        """Identifier of the run."""
        return str(self._run)

    def planned(self, number: int, why: str, plan: ServingPlan | None, numbers: Mapping[str, float]) -> None:
        """Log a plan."""
        text = "no backend" if plan is None else plan.explain()
        try:
            self._client.log_text(self._run, f"{why}\n\n{text}\n", f"plans/{number:05d}.txt")
            now = int(1000 * time.time())
            for name, value in numbers.items():
                self._client.log_metric(self._run, name, float(value), now, number)
        except Exception as error:  # noqa: BLE001 - of a tracking server, of any kind
            _LOG.warning("plan %d could not be logged: %s", number, error)

    def close(self) -> None:
        """End the run."""
        try:
            self._client.set_terminated(self._run)
        except Exception as error:  # noqa: BLE001 - as above
            _LOG.warning("the run of the plans could not be ended: %s", error)
