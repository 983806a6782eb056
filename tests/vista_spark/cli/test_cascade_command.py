"""``vista cascade``: a table with answers, a certificate, and arguments that are refused before Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

from sessions import CONNECT
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from vista_spark import compile_pipeline
from vista_spark.cli import app

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["cascade", *map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(800, 2)), columns=["x", "y"])
    kind = np.where(table.x + 0.1 * draw.normal(size=800) > 0, "up", "down")
    paths = tmp_path / "forest.safetensors", tmp_path / "linear.safetensors", tmp_path / "table.parquet"
    compile_pipeline(RandomForestClassifier(10, random_state=0).fit(table, kind)).save(paths[0])
    compile_pipeline(LogisticRegression().fit(table, kind)).save(paths[1])
    table.to_parquet(paths[2])
    return paths


def test_a_value_out_of_range_is_refused(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    oracle, proxy, table = files
    done = run(oracle, "--proxy", proxy, "--table", table, "--out", tmp_path / "out", "--target", "1.5")
    assert done.exit_code == 2
    assert "target must be a number above 0 and below 1, got 1.5" in done.output
    (tmp_path / "there").mkdir()
    done = run(oracle, "--proxy", proxy, "--table", table, "--out", tmp_path / "there")
    assert "--out must name a new folder" in done.output


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="the command starts its own session")
def test_a_table_is_answered(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    oracle, proxy, table = files
    out = tmp_path / "out"
    arguments: list[Any] = [
        oracle,
        "--proxy",
        proxy,
        "--table",
        table,
        "--out",
        out,
        "--target",
        "0.9",
        "--sample",
        "0.5",
    ]
    # The command ends its session, which in this process would be that of all tests.
    words = [sys.executable, "-m", "vista_spark", "cascade", *map(str, arguments), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert sum(facts["answered_by"].values()) == 800
    answers = pd.read_parquet(out)
    assert set(answers.prediction) == {"up", "down"}
    assert facts["certificate"]["target"] == 0.9
