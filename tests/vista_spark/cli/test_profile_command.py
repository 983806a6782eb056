"""``vista profile --batches``: what serving plans by, and sizes that say nothing."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from optimizer.serving import BatchingProfile, ServingError
from udfs.node import hardware
from vista_spark.cli import app


def test_batches_are_measured_for_a_plan() -> None:
    done = CliRunner().invoke(app, ["profile", "squeezenet1_1", "--batches", "4, 1", "--threads", "2", "--json"])
    assert done.exit_code == 0, done.output
    profile = BatchingProfile.from_document(json.loads(done.stdout))
    assert list(profile.latency_ms) == [1, 4]
    # It may be given to the planner here, and nowhere else.
    profile.check_machine(hardware(), threads=2)
    with pytest.raises(ServingError, match="Measure the model here"):
        profile.check_machine(hardware(), threads=1)
    assert profile.memory[1] < profile.memory[4]
    # The latencies of random weights are those of trained ones.
    assert "RandomWeights" not in done.stderr


def test_batches_are_shown() -> None:
    done = CliRunner().invoke(app, ["profile", "squeezenet1_1", "--batches", "1"])
    assert "requests/s" in done.stdout


@pytest.mark.parametrize(
    ("batches", "words"), [("4,8", "--batches must include 1"), ("1,x", "'x' is no size"), ("1,0", "'0' is no size")]
)
def test_sizes_that_say_nothing(batches: str, words: str) -> None:
    done = CliRunner().invoke(app, ["profile", "squeezenet1_1", "--batches", batches])
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--threads", "2"), "--threads must be given with --batches"),
        (("--batches", "1", "--batch-size", "8"), "--batch-size and --batches must not be given together"),
        (("--batches", "1", "--fresh"), "--fresh must not be given with --batches"),
    ],
)
def test_options_of_the_other_measurement(options: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(app, ["profile", "squeezenet1_1", *options])
    assert done.exit_code == 2
    assert words in done.stderr
