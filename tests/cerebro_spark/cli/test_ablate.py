"""``cerebro ablate``: from a file and a table to the effects of the parts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from sessions import CONNECT
from typer.testing import CliRunner

from cerebro_spark.cli import app

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(CONNECT, reason="the command starts its own Spark")

FILE = """
import torch
from cerebro_spark import ModelTrainer

feature_columns = ["signal", "noise"]
label_columns = ["label"]
metric = "accuracy"
num_epochs = 2
repeats = 2
controls = False
features = ["signal", "noise"]


def trainer_fn(params):
    net = torch.nn.Linear(2, 2)
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=0.1),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
    )
"""


def table(folder: Path) -> Path:
    drawn = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["signal", "noise"])
    path = folder / "rows.parquet"
    drawn.assign(label=(drawn["signal"] > 0).astype("int64")).to_parquet(path)
    return path


@pytest.mark.extended
def test_the_effects_are_written(tmp_path: Path) -> None:
    (tmp_path / "ablation.py").write_text(FILE)
    command = ["ablate", str(tmp_path / "ablation.py"), "--table", str(table(tmp_path)), "--out", str(tmp_path / "out")]
    run = CliRunner().invoke(app, [*command, "--master", "local[2]", "--json"])
    assert run.exit_code == 0, run.output
    written = pd.read_csv(tmp_path / "out" / "effects.csv").set_index("part")
    assert written.loc["signal", "effect"] > 0.2
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"effects.png", "trials.csv", "run.txt"}
    printed = json.loads(run.stdout)
    assert [row["part"] for row in printed["effects"]] == written.index.tolist()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("repeats = 1", "repeats must be a whole number of at least 2, got 1"),
        ("features = ['signl']", "got 'signl'; did you mean 'signal'?"),
        ("del num_epochs", "num_epochs must be set in"),
        ("del trainer_fn", "must define trainer_fn"),
        ("feature_columns = ['signal', 'nois']; features = ['signal']", "nois"),
    ],
)
def test_a_wrong_file_is_refused_before_spark_starts(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "ablation.py").write_text(f"{FILE}\n{line}\n")
    command = ["ablate", str(tmp_path / "ablation.py"), "--table", str(table(tmp_path)), "--out", str(tmp_path / "out")]
    run = CliRunner().invoke(app, command)
    assert run.exit_code != 0
    assert said in " ".join((run.output + str(run.exception)).split())
    assert not (tmp_path / "out").exists()
