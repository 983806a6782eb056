"""``vista skew``: distributions of a file with labels, a picture, and arguments that are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from sessions import CONNECT
from typer.testing import CliRunner

from vista_spark.cli import app

if TYPE_CHECKING:
    from pathlib import Path


def test_wrong_options_are_refused_before_spark() -> None:
    done = CliRunner().invoke(app, ["skew", "labels.csv", "--window", "10", "--window", "-1"])
    assert done.exit_code == 2
    assert "--window must be a number above 0, got -1.0" in done.output
    done = CliRunner().invoke(app, ["skew", "labels.csv", "--plot", "labels.csv"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "a picture ends with" in done.output


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="the command starts its own session")
def test_a_file_is_measured(tmp_path: Path) -> None:
    table, picture = tmp_path / "labels.csv", tmp_path / "skew.png"
    rows = [(camera, second, "cat" if second % 10 < 7 else "dog") for camera in ("a", "b") for second in range(25)]
    pd.DataFrame(rows, columns=["camera", "second", "prediction"]).to_csv(table, index=False)
    words = [str(table), "--label", "prediction", "--time", "second", "--group", "camera", "--window", "10"]
    command = [sys.executable, "-m", "vista_spark", "skew", *words, "--plot", str(picture), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    wanted = [(0.6, 1, 1.0), (0.7, 1, 1.0), (0.8, 2, 1.0), (0.9, 2, 1.0)]
    assert [(row["share"], row["labels"], row["fraction"]) for row in facts["distributions"]] == wanted
    assert facts["left_out"] == [{"window": 10.0, "windows": 2}]
    assert picture.read_bytes().startswith(b"\x89PNG")
