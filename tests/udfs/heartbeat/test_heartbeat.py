"""The heartbeat of a real process: held, stopped, killed, given up, without its driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT

from udfs.heartbeat import Abort, Acknowledged, Beat
from udfs.heartbeat._process_state import ProcessState, process_state
from udfs.hopper import HOPPER
from udfs.rpc import Endpoint, new_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc to see what the processes do")

CREDENTIALS = new_credentials(encrypted=True)
PATIENCE_S = 60.0


@dataclass
class Driver:
    """Notes when beats arrive; ``reply`` is what it answers."""

    beats: list[float] = field(default_factory=list)
    reply: Any = field(default_factory=Acknowledged)

    def answer(self, request: Any) -> Any:
        assert request == Beat(worker="w0", attempt="a1")
        self.beats.append(time.monotonic())
        return self.reply

    def wait_for_beats(self, count: int) -> None:
        wanted = len(self.beats) + count
        wait_until(lambda: len(self.beats) >= wanted)


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    with Endpoint("127.0.0.1", CREDENTIALS, HOPPER, driver.answer) as endpoint:
        driver.location = endpoint.location  # type: ignore[attr-defined]
        yield driver


@pytest.fixture
def beating(driver: Driver) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process that has a heartbeat, and then runs some lines."""
    made: list[subprocess.Popen[str]] = []

    def begin(then: str = "time.sleep(600)", lost_s: float = 30.0) -> subprocess.Popen[str]:
        program = f"""
            import ctypes, json, sys, time
            from udfs.heartbeat import Heartbeat
            from udfs.hopper import HOPPER
            from udfs.rpc import Credentials
            secret, certificate = json.loads(sys.stdin.readline())
            credentials = Credentials(bytes.fromhex(secret), certificate)
            location = {driver.location!r}
            heartbeat = Heartbeat("w0", "a1", location, credentials, HOPPER, lost_s={lost_s})
            heartbeat.start()
            {then}
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        made.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps([CREDENTIALS.secret.hex(), CREDENTIALS.certificate]) + "\n")
        process.stdin.flush()
        driver.wait_for_beats(1)
        return process

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def child_of(process: subprocess.Popen[str]) -> int:
    (child,) = [
        pid for path in Path(f"/proc/{process.pid}/task").glob("*/children") for pid in path.read_text().split()
    ]
    return int(child)


def is_gone(pid: int) -> bool:
    return process_state(pid) is ProcessState.GONE


def test_a_process_that_holds_pythons_global_lock_beats(driver: Driver, beating: Callable[..., Any]) -> None:
    """PyDLL calls C without giving the lock up: no thread of the process runs meanwhile."""
    process = beating("ctypes.PyDLL(None).sleep(600)")
    driver.wait_for_beats(5)
    assert process.poll() is None


def test_a_stopped_process_is_silent_until_it_goes_on(driver: Driver, beating: Callable[..., Any]) -> None:
    process = beating()
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.5)
    before = len(driver.beats)
    time.sleep(3.0)
    assert len(driver.beats) == before
    os.kill(process.pid, signal.SIGCONT)
    driver.wait_for_beats(2)


def test_the_heartbeat_of_a_killed_process_ends(beating: Callable[..., Any]) -> None:
    process = beating()
    child = child_of(process)
    process.kill()
    process.communicate()
    wait_until(lambda: is_gone(child))


def test_a_process_that_the_driver_gave_up_is_ended_whatever_it_does(
    driver: Driver, beating: Callable[..., Any]
) -> None:
    process = beating("ctypes.PyDLL(None).sleep(600)")
    child = child_of(process)
    driver.reply = Abort()
    assert process.communicate(timeout=PATIENCE_S)[1] == "worker w0 is ended: the driver gave up on what it does\n"
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: is_gone(child))


def test_a_process_without_a_driver_is_ended(driver: Driver, beating: Callable[..., Any]) -> None:
    process = beating(lost_s=1.0)
    driver.reply = RuntimeError("no message of the protocol")
    assert "worker w0 is ended: the driver has not answered for 1 s" in process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == -signal.SIGKILL


def test_a_killed_heartbeat_is_replaced(driver: Driver, beating: Callable[..., Any]) -> None:
    process = beating()
    child = child_of(process)
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: is_gone(child))
    driver.wait_for_beats(2)
    assert child_of(process) != child


def test_a_heartbeat_that_is_stopped_leaves_no_process_and_ends_nothing(
    driver: Driver, beating: Callable[..., Any]
) -> None:
    process = beating("sys.stdin.readline(); heartbeat.stop(); sys.exit('the end of its own')")
    child = child_of(process)
    driver.reply = Abort()
    process.stdin.write("\n")
    process.stdin.flush()
    text = process.communicate(timeout=PATIENCE_S)[1]
    # The driver's last words may have come before.
    assert text.endswith(("the end of its own\n", "the driver gave up on what it does\n"))
    assert is_gone(child)


def test_the_secret_is_in_no_command_line_and_no_environment(beating: Callable[..., Any]) -> None:
    child = child_of(beating())
    for name in ("cmdline", "environ"):
        content = Path(f"/proc/{child}/{name}").read_bytes()
        assert CREDENTIALS.secret not in content
        assert CREDENTIALS.secret.hex().encode() not in content
    assert b"heartbeat of w0" in Path(f"/proc/{child}/cmdline").read_bytes()


def test_the_state_of_a_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert process_state(process.pid) is ProcessState.RUNS
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: process_state(process.pid) is ProcessState.STOPPED)
        process.kill()
        wait_until(lambda: is_gone(process.pid))
    assert is_gone(process.pid)


def test_the_state_of_a_process_as_ps_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no /proc."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert process_state(process.pid) is ProcessState.RUNS
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: process_state(process.pid) is ProcessState.STOPPED)
        process.kill()
        wait_until(lambda: is_gone(process.pid))
    assert is_gone(process.pid)
    monkeypatch.setenv("PATH", "")
    assert process_state(os.getpid()) is ProcessState.RUNS
