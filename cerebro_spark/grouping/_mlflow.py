"""MLflow run of a search per group: its settings, its summary, and a table of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from udfs.driver import check_tracking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.grouping._model import GroupedModel

__all__ = ["check_server", "log_run"]

# Rows of the table: all groups are in the store.
_LOGGED = 10_000


def check_server(experiment: str | None) -> None:
    """Check that MLflow's server answers, if an experiment is named.

    Raises
    ------
    TrackingError
        It does not answer within 10 seconds.
    """
    if experiment is not None:
        check_tracking(experiment)


def log_run(experiment: str, model: GroupedModel, parameters: Mapping[str, Any]) -> None:
    """Log one run, with a table of the groups, the largest first."""
    from mlflow import MlflowClient  # takes a second that only tracking should cost

    client = MlflowClient()
    known = client.get_experiment_by_name(experiment)
    place = client.create_experiment(experiment) if known is None else known.experiment_id
    run = client.create_run(place, run_name=model.run_id).info.run_id
    for name, value in parameters.items():
        client.log_param(run, name, str(value)[:500])
    summary = model.summary
    for status, count in summary.statuses.items():
        client.log_metric(run, f"groups_{status}", count)
    for name in ("better", "equal", "worse"):
        client.log_metric(run, f"groups_{name}_than_baseline", getattr(summary, name))
    client.log_text(run, summary.explain(), "groups.txt")
    table = model.groups.withColumn("metrics", F.to_json("metrics")).orderBy("level", F.desc("rows")).limit(_LOGGED)
    client.log_table(run, table.toPandas(), "groups.json")
    client.log_figure(run, model.plot(), "groups.png")
    client.set_terminated(run)
