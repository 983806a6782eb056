"""The benchmark of feature transfer runs to its end; its timings are not judged here."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("torch")

from benchmarks.transfer import figures
from benchmarks.transfer.__main__ import main
from optimizer.errors import UnknownLayerError


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.transfer", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.slow
def test_the_last_line_is_the_ratios() -> None:
    small = ["--model", "squeezenet1_1", "--layers", "2", "--image-size", "64", "--images", "8", "--sweep", "4"]
    done = run(*small, "--repeats", "1", "--json")
    assert done.returncode == 0, done.stderr
    ratios = json.loads(done.stdout.splitlines()[-1])["ratios"]
    assert set(ratios) == {
        "vs_bare",
        "vs_bare_cold",
        "one_pass_over_flops",
        "vs_lazy",
        "vs_lazy_over_flops",
        "vs_lazy_over_seconds",
        "vs_own_lazy",
    }
    assert all(math.isfinite(ratio) and ratio > 0 for ratio in ratios.values())
    for said in ("squeezenet1_1", "random weights", "predict_batch_udf", "images/s", "<- the baseline"):
        assert said in done.stdout


@pytest.mark.parametrize("program", [main, figures.main], ids=["transfer", "figures"])
def test_an_unknown_layer_is_said_before_anything_starts(
    program: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownLayerError, match="no layer 'block99'"):
        program(("--layers", "block99"))
    assert "images/s" not in capsys.readouterr().out
