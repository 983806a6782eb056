"""``vista specialize``: frames with labels, and arguments that are refused before Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from photographs import crops, encode
from sessions import CONNECT
from typer.testing import CliRunner

pytest.importorskip("torch")

from vista_spark.cli import app

if TYPE_CHECKING:
    from pathlib import Path

NETWORKS = ["--oracle", "squeezenet1_1", "--compact", "squeezenet1_1", "--oracle-size", "64", "--compact-size", "32"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return a folder for each class, and a table of frames."""
    rows = []
    for number, (label, _, _, picture) in enumerate(crops(30, side=64)):
        folder = tmp_path / "photos" / ("flower" if label else "china")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(encode(picture))
        rows.append({"camera": "left", "t": number / 6, "image": encode(picture)})
    pd.DataFrame([*rows, {"camera": "left", "t": 9.0, "image": b"none"}]).to_parquet(tmp_path / "frames.parquet")
    return tmp_path / "photos", tmp_path / "frames.parquet"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*NETWORKS], "--random-weights tries the command without"),
        ([*NETWORKS, "--random-weights", "--margin", "2"], "--margin must be a number from -1 to 1, got 2.0"),
        ([*NETWORKS, "--random-weights", "--method", "train"], "reweight, retrain"),
        (["--oracle", "vgg61", *NETWORKS[2:], "--random-weights"], "did you mean 'vgg16'"),
    ],
)
def test_a_wrong_argument_is_refused(
    files: tuple[Path, Path], tmp_path: Path, arguments: list[str], message: str
) -> None:
    photos, frames = files
    words = [*arguments, "--images", str(photos), "--frames", str(frames), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["specialize", *words], env={"COLUMNS": "200"})
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="the command starts its own session")
@pytest.mark.parametrize("form", [["--json"], pytest.param([], marks=pytest.mark.slow)])
def test_frames_are_labelled(files: tuple[Path, Path], tmp_path: Path, form: list[str]) -> None:
    photos, frames = files
    out = tmp_path / "out"
    words = [*NETWORKS, "--random-weights", "--images", photos, "--frames", frames, "--group", "camera", "--out", out]
    done = subprocess.run(
        [sys.executable, "-m", "vista_spark", "specialize", *map(str, words), "--master", "local[2]", *form],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(out)
    assert len(table) == 31
    assert set(table.prediction.dropna()) <= {"china", "flower"}
    assert table.frame_error.notna().sum() == 1
    if form:
        facts = json.loads(done.stdout.splitlines()[-1])
        assert facts["frames"] == 31
        assert facts["phases"] == table.phase.fillna("bad").value_counts().to_dict()
        assert facts["oracle"] == (table.model == "oracle").sum()
    else:
        assert "oracle: 2 classes" in done.stdout
        assert "31 frames: bad 3%" in done.stdout
