"""``vista catalog``: a catalog from files, and arguments that are refused before Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from photographs import crops, encode
from sessions import CONNECT
from typer.testing import CliRunner

pytest.importorskip("torch")

from vista_spark.cli import app
from vista_spark.variants import read_catalog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, (label, _, _, picture) in enumerate(crops(24, side=64)):
        folder = tmp_path / "photos" / ("flower" if label else "china")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(encode(picture))
    return tmp_path / "photos"


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        ("narrows=0.5", "must be one of factorize,"),
        ("narrow=2", "widths must be a number above 0"),
        ("quantize=0.5", "invalid literal"),
        ("quantize=4", "bits must be 16 or 8"),
    ],
)
def test_a_wrong_transformation_is_refused(apply: str, message: str, photos: Path, tmp_path: Path) -> None:
    words = ["--model", "squeezenet1_1", "--random-weights", "--images", str(photos), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["catalog", *words, "--apply", apply], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="the command starts its own session")
def test_folders_of_classes_become_a_catalog(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--model", "squeezenet1_1", "--random-weights", "--images", photos, "--image-size", 32, "--out", out]
    words += ["--apply", "quantize=8", "--epochs", 1, "--valid-fraction", 0.4, "--master", "local[2]", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "vista_spark", "catalog", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert [variant["name"] for variant in facts["variants"]] == ["full", "8bit"]
    assert read_catalog(out).classes == ("china", "flower")
    assert (out / "catalog.png").read_bytes().startswith(b"\x89PNG")
