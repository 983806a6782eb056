"""A search that its user interrupts, in a process of its own: what is ended, what goes on, and what the user reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import IMPORTS
from sessions import CONNECT

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(CONNECT or sys.platform != "linux", reason="looks into /proc, and asks Spark for its jobs"),
]

PHASES = ("prepare", "build", "units", "hang")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What the driver found, and all that it and its Spark printed."""
    folder = tmp_path_factory.mktemp("interrupted")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("interrupted.py")), str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(IMPORTS), "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return json.loads((folder / "found.json").read_text()), done.stdout


@pytest.mark.parametrize("phase", PHASES)
def test_no_thread_job_heartbeat_or_socket_is_left(told: tuple[dict[str, Any], str], phase: str) -> None:
    found = told[0][phase]
    assert found["threads"] == []
    assert found["heartbeats"] == []
    assert found["listening"] == told[0]["prepare"]["listening"]
    assert found["jobs"] == (phase != "prepare"), "of another session"
    assert found["handler"].startswith("pyspark."), "Spark's own handler is back"


@pytest.mark.parametrize("phase", ["build", "hang"])
def test_a_process_that_hangs_is_killed(told: tuple[dict[str, Any], str], phase: str) -> None:
    """One sleeps in trainer_fn before its worker is attached; the other holds Python's lock and ignores SIGTERM."""
    assert told[0][phase]["gone"]


def test_the_user_reads_how_to_go_on(told: tuple[dict[str, Any], str]) -> None:
    assert told[0]["prepare"]["message"] == ""
    for phase in PHASES[1:]:
        message = told[0][phase]["message"]
        assert re.fullmatch(
            r"run 'disturbed' was interrupted in epoch \d\. "
            r"Go on with Selection\.resume\(store, 'disturbed', backend=\.\.\., trainer_fn=\.\.\.\)",
            message,
        )


def test_nobody_reads_a_stack_trace(told: tuple[dict[str, Any], str]) -> None:
    assert "\tat " not in told[1]
    assert "Traceback" not in told[1]


def test_what_trainers_print_is_in_their_logs_alone(told: tuple[dict[str, Any], str]) -> None:
    """Also what was printed before the interrupts; the trial on the driver prints there, two batches in each search."""
    assert told[1].count("the trainer prints") <= 2 * (len(PHASES) + 1)
    assert sum(log.count("the trainer prints") for log in told[0]["logs"]) > 2 * (len(PHASES) + 1)
    for log in told[0]["logs"]:
        assert re.search(r"\[train c00\d epoch 0 partition \d #\d+ on w\d\]\nthe trainer prints\n", log)


def test_the_session_and_other_sessions_go_on(told: tuple[dict[str, Any], str]) -> None:
    assert [told[0][phase]["count"] for phase in PHASES] == [5] * 4
    assert told[0]["others"] == 1


def test_a_resumed_run_is_that_of_an_undisturbed_one(told: tuple[dict[str, Any], str]) -> None:
    assert told[0]["statuses"] == ["finished"] * 4
    assert told[0]["equal"]
