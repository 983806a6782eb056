"""Runner as a child of the server: it gets its token by environment, starts again, and ends with the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from places import ROOT

from cerebro_spark.cli import _runner_process
from cerebro_spark.cli._runner_process import RunnerProcess

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

# Writes its arguments and its token, and then that it has seen the end of its input.
CHILD = """
import os, sys
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "began").open("a").write("once ")
(folder / "token").write_text(os.environ["CEREBRO_TOKEN"])
if len(sys.argv) > 2:
    sys.exit(3)
(folder / "waits").touch()
while os.read(0, 100):
    pass
(folder / "ended").touch()
"""
PARENT = """
import sys, time
from cerebro_spark.cli._runner_process import RunnerProcess
process = RunnerProcess([])
process._command = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
process.start()
time.sleep(300)
"""


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, path.name
        time.sleep(0.02)


def test_the_runner_ends_with_the_server_and_has_its_token(tmp_path: Path) -> None:
    process = RunnerProcess(["--server", "http://127.0.0.1:8765"])
    assert process._command[1:4] == ["-m", "cerebro_spark", "runner"] and process._command[-1] == "--stop-with-input"
    # Other users can read command lines.
    assert not any(process.token in word for word in process._command)
    process._command = [sys.executable, "-c", CHILD, str(tmp_path)]
    process.start()
    wait_for(tmp_path / "waits")
    process.stop()
    assert (tmp_path / "ended").exists() and (tmp_path / "token").read_text() == process.token
    assert (tmp_path / "began").read_text() == "once "


def test_the_runner_ends_if_the_server_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD, str(tmp_path)], env=environment)
    wait_for(tmp_path / "waits")
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_for(tmp_path / "ended")


def test_a_runner_that_fails_is_started_again_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runner_process, "_PAUSE_S", 0.0)
    process = RunnerProcess([])
    process._command = [sys.executable, "-c", CHILD, str(tmp_path), "fail"]
    process.start()
    process._thread.join(60)
    assert (tmp_path / "began").read_text().split() == ["once"] * 3
    process.stop()


def test_a_runner_that_has_not_started_is_stopped() -> None:
    """A server whose port is taken says so, and starts no runner."""
    RunnerProcess([]).stop()
