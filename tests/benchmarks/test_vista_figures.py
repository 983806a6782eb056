"""The figures of Vista's experiments run to their end; what they measure is not judged here."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

from benchmarks.transfer import figures


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.transfer.figures", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=550)


@pytest.mark.slow
def test_pictures_tables_and_ratios(tmp_path: Path) -> None:
    small = ["--model", "squeezenet1_1", "--layers", "2", "--image-size", "64", "--images", "32"]
    done = run("--figure", "12,c3", *small, "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    ratios = json.loads(done.stdout.splitlines()[-1])["ratios"]
    assert set(ratios) == {"scale_up", "speedup_over_cores", "estimated_over_actual"}
    assert all(math.isfinite(ratio) and ratio > 0 for ratio in ratios.values())
    assert {path.name for path in tmp_path.iterdir()} == {"figure12.png", "figureC3.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
    for said in ("squeezenet1_1, random weights", "local[1], 1x", "local[2], 2x", "shuffle join, deserialized"):
        assert said in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--figure", "7"), "--figure 7: all, or some of 6, 8"),
        (("--images", "2"), "at least 16"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        figures.main((*options, "--out", str(tmp_path / "out")))
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
