"""A feature transfer as MLflow runs: a parent, and a child for each set of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from optimizer import __version__
from vista_spark.sessions import measured_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vista_spark.transfer._result import TransferResult

__all__ = ["log"]


def log(result: TransferResult, parameters: Mapping[str, Any], experiment: str) -> str:
    """Log to the tracking server that MLflow is set to (by default a SQLite file in the working directory).

    The best model goes with it in MLflow's Spark flavour, except on Spark Connect, which MLflow cannot copy files from.
    The experiment is created where it does not exist. Return the parent's run id.
    """
    import mlflow  # takes a second that only tracking should cost

    existing = mlflow.get_experiment_by_name(experiment)
    # Not set_experiment, which would move the user's own later runs too.
    chosen = mlflow.create_experiment(experiment) if existing is None else existing.experiment_id
    name = f"{result.plan.model} {result.plan.logical}"
    inside = mlflow.active_run() is not None
    with mlflow.start_run(experiment_id=chosen, run_name=name, nested=inside) as run:
        counts = {"train_rows": result.train_rows, "test_rows": result.test_rows}
        mlflow.log_params({**parameters, **counts, "dropped_rows": sum(result.dropped.values())})
        mlflow.log_dict(dict(result.dropped), "dropped.json")
        mlflow.set_tag("best_layer", result.best_layer or "none")
        mlflow.set_tag("verdict", result.verdict)
        mlflow.log_metrics(
            {
                f"best_{result.metric}": result.best.score,
                f"baseline_{result.metric}": result.baseline.score,
                "seconds": sum(row.seconds for row in result.rows),
                "inference_seconds": sum(row.inference_seconds for row in result.layers),
                "predicted_inference_seconds": result.choice.seconds,
                "predicted_peak_bytes": result.choice.physical.peak_bytes,
            }
        )
        _log_memory()
        mlflow.log_text(result.choice.explain(), "plan.txt")
        mlflow.log_text(result.to_pandas().to_csv(index=False), "layers.csv")
        mlflow.log_figure(result.plot(), "layers.png")
        if is_remote():
            mlflow.set_tag("best_model", "not logged: MLflow's Spark flavour needs classic Spark")
        else:
            requirements = [f"cerebro-spark[torch]=={__version__}"]  # given, or MLflow would start Spark to find them
            mlflow.spark.log_model(result.best_model, "best_model", pip_requirements=requirements)
        for row in result.rows:
            with mlflow.start_run(experiment_id=chosen, run_name=row.name, nested=True):
                mlflow.log_params({"features": row.name, "size": row.size})
                mlflow.log_metrics(
                    {
                        result.metric: row.score,
                        "inference_seconds": row.inference_seconds,
                        "training_seconds": row.training_seconds,
                        "gflops": row.gflops,
                    }
                )
        return str(run.info.run_id)


def _log_memory() -> None:
    """Log the memory that the JVM plugin measured since the executors started; nothing without the plugin."""
    import mlflow

    spark = SparkSession.getActiveSession()
    rows = None if spark is None else measured_memory(spark)
    if rows is None:
        return
    mlflow.log_text(rows.to_csv(index=False), "memory.csv")
    for region in ("jvm", "python", "total"):
        of_region = rows[rows["region"] == region]
        for name, column in (("measured_peak", "peak_bytes"), ("predicted", "predicted_bytes")):
            largest = of_region[column].max()
            if largest == largest:  # NaN without a value
                mlflow.log_metric(f"{name}_{region}_bytes", float(largest))
