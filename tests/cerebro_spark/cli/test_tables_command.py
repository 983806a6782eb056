"""``cerebro tables``: a run's record as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from searches import adult, search

from cerebro_spark.cli import app
from cerebro_spark.tune import run_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from cerebro_spark import Store


def test_the_files_are_the_tables(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    task = search(spark, store, num_epochs=1, search_space={"lr": [0.01], "hidden": [8]})
    task.fit(task.prepare(adult(spark, 200)), run_id="told")
    done = CliRunner().invoke(app, ["tables", store.uri, "told", "--out", str(tmp_path / "new" / "record")])
    assert done.exit_code == 0, done.output
    tables = run_tables(store, "told")
    assert {path.name for path in (tmp_path / "new" / "record").iterdir()} == {f"{name}.parquet" for name in tables}
    for name, table in tables.items():
        read = pd.read_parquet(tmp_path / "new" / "record" / f"{name}.parquet")
        pd.testing.assert_frame_equal(read, table, check_dtype=False)
    done = CliRunner().invoke(app, ["tables", store.uri, "told", "--out", str(tmp_path), "--format", "csv"])
    assert done.exit_code == 0, done.output
    assert pd.read_csv(tmp_path / "metrics.csv").value.tolist() == tables["metrics"].value.tolist()


def test_a_run_that_there_is_not_is_named_with_those_that_there_are(store: Store, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["tables", store.uri, "gone", "--out", str(tmp_path / "record")])
    assert done.exit_code != 0
    assert "has no run 'gone'; runs: none" in done.output
    assert not (tmp_path / "record").exists()
