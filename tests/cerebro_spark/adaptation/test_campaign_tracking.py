"""MLflow's runs of a campaign: one for each cycle, within one of the campaign, with one within for each candidate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from campaigns import campaign, frame, records
from searches import disk_full_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udfs.store import Store

mlflow = pytest.importorskip("mlflow")

# The second is of mlflow's own, on import and on the first use of its store.
pytestmark = [pytest.mark.extended, pytest.mark.filterwarnings("default")]


@pytest.fixture
def _tracked(tracking: Any, tmp_path: Path) -> None:
    tracking.create_experiment("tweets", artifact_location=(tmp_path / "artifacts").as_uri())


@pytest.mark.usefixtures("_tracked")
def test_a_run_for_each_cycle_within_one_of_the_campaign(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver stops in the second cycle, and another object goes on."""
    space = {"lr": [0.01], "layers": [2, 4]}
    first = campaign(spark, store, search_space=space, experiment="tweets").fit(frame(spark, *records(0, 60)))
    again = campaign(spark, store, search_space=space, experiment="tweets")
    with disk_full_after(1, monkeypatch), pytest.raises(Exception, match="the disk is full"):
        again.fit(frame(spark, *records(60, 90)))
    second = again.resume()

    runs = mlflow.search_runs(experiment_names=["tweets"], output_format="list")
    by_name: dict[str, list[mlflow.entities.Run]] = {}
    for run in sorted(runs, key=lambda run: run.info.start_time):
        by_name.setdefault(run.info.run_name, []).append(run)
    (whole,) = by_name["campaign"]
    assert whole.info.status == "FINISHED"
    assert "mlflow.parentRunId" not in whole.data.tags
    parts = by_name["campaign-0000"] + by_name["campaign-0001"]
    assert [run.info.status for run in parts] == ["FINISHED", "FAILED", "FINISHED"]
    assert {run.data.tags["mlflow.parentRunId"] for run in parts} == {whole.info.run_id}
    for run, cycle in ((parts[0], first), (parts[2], second)):
        done, metrics = cycle.materialised, run.data.metrics
        assert metrics["materialised_bytes"] == done.bytes
        assert metrics["trunk_rows"] == done.trunk_rows
        assert metrics["records"] == cycle.line.records
        assert metrics["seconds"] == pytest.approx(cycle.outcome.seconds)
        assert metrics["best_val_accuracy"] == cycle.best_score
        assert run.data.params["disk_bytes"] == str(25 << 30)
        folder = Path(run.info.artifact_uri.removeprefix("file://"))
        assert (folder / "run.txt").read_text() == cycle.explain()
        inner = [each for each in runs if each.data.tags.get("mlflow.parentRunId") == run.info.run_id]
        assert {each.info.run_name: each.data.metrics["val_accuracy"] for each in inner} == {
            trial.trial_id: trial.history[-1]["val_accuracy"] for trial in cycle.trials
        }
    assert "materialised: " in (Path(parts[0].info.artifact_uri.removeprefix("file://")) / "run.txt").read_text()
    course = mlflow.MlflowClient().get_metric_history(whole.info.run_id, "records")
    assert [(each.step, each.value) for each in course] == [(0, 60), (1, 90)]
    assert first.materialised.bytes > 0
