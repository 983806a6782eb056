"""Register the best model of a search in MLflow, and name it ``champion`` if its metric is better than the champion's.

``python register_best.py --name adult --metric val_accuracy --search JSON`` takes what ``cerebro tune --json`` prints.
A search is registered once, however often the command is repeated: the MLflow run of the version has the tag
``cerebro.run_id``. It prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import mlflow
from mlflow.exceptions import MlflowException
from pyspark.sql import SparkSession

import cerebro_spark.mlflow
from cerebro_spark import TunedModel

_CHAMPION = "champion"

# Tag of the MLflow run that a version belongs to. It is there before the version is.
_RUN = "cerebro.run_id"


def register(name: str, metric: str, search: dict[str, Any], *, smaller: bool = False) -> dict[str, Any]:
    """Register a model version, unless the search has one already, and make it the champion if it is better."""
    client = mlflow.MlflowClient()
    versions = client.search_model_versions(f"name = '{name}'")
    score = next(trial["scores"][metric] for trial in search["trials"] if trial["trial_id"] == search["best"])
    of_this_search = [each for each in versions if client.get_run(each.run_id).data.tags.get(_RUN) == search["run_id"]]
    version = str(of_this_search[0].version) if of_this_search else _log(name, metric, score, search)
    try:
        champion = client.get_model_version_by_alias(name, _CHAMPION)
    except MlflowException:
        champion = None
    best = None if champion is None else client.get_run(champion.run_id).data.metrics[metric]
    if best is None or (score < best if smaller else score > best):
        client.set_registered_model_alias(name, _CHAMPION, version)
    return {"name": name, "version": version, metric: score, "champion_before": best}


def _log(name: str, metric: str, score: float, search: dict[str, Any]) -> str:
    """Log the best model as a new version, and return its number."""
    SparkSession.builder.master("local[1]").getOrCreate()  # which loads the model
    model = TunedModel.load(str(Path(search["out"]).resolve() / "best_model"))
    with mlflow.start_run(run_name=search["run_id"], tags={_RUN: search["run_id"]}):
        mlflow.log_metric(metric, score)
        info = cerebro_spark.mlflow.log_model(model, "model", registered_model_name=name)
    return str(info.registered_model_version)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="registered model")
    parser.add_argument("--metric", required=True, help="score of the search that decides")
    parser.add_argument("--smaller", action="store_true", help="smaller scores are better")
    parser.add_argument("--search", required=True, type=json.loads, help="JSON object of cerebro tune --json")
    given = parser.parse_args()
    print(json.dumps(register(given.name, given.metric, given.search, smaller=given.smaller)))
