"""``cerebro tune --group-by``: options that are refused before Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest
from typer.testing import CliRunner

from cerebro_spark.cli import app

if TYPE_CHECKING:
    from pathlib import Path

SEARCH = """
feature_columns, label_columns, num_epochs = ["x"], ["y"], 1
search_space = {"lr": [0.1]}

def trainer_fn(params):
    raise AssertionError("nothing trains")
"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--resume", "first"], "--resume must be left out with --group-by, got first. Repeat the command"),
        (["--procedure", "pbt"], "--procedure must be left out with --group-by, got pbt"),
        (["--max-seconds", "9"], "max_seconds must be left out with --group-by, got 9.0"),
        (["--if-begun", "take_over", "--run-id", "a"], "--if-begun must be error or resume with --group-by"),
        (["--metric", "loss,accuracy"], "metric must be a text, got ['loss', 'accuracy']"),
        ([], "no column 'town'"),
    ],
)
def test_options_without_a_meaning_for_groups_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "search.py").write_text(SEARCH)
    pd.DataFrame({"x": [1.0], "y": [0], "state": ["CA"]}).to_parquet(tmp_path / "table.parquet")
    command = ["tune", str(tmp_path / "search.py"), "--group-by", "state,town", "--out", str(tmp_path / "out")]
    table = ["--table", str(tmp_path / "table.parquet")]
    done = CliRunner().invoke(app, [*command, *table, *options], env={"COLUMNS": "400"})
    assert done.exit_code == 2, done.output + repr(done.exception)
    assert message in " ".join(done.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
