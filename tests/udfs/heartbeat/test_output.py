"""Output of a real process: of Python, of C, of children; its end where the process dies; nothing on the console."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from places import ROOT

from udfs.heartbeat import Ended, Output, Printed
from udfs.heartbeat._printed_output import KEPT_BYTES, read_printed, release_middle
from udfs.hopper import HOPPER, Acknowledged
from udfs.rpc import Endpoint, new_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

CREDENTIALS = new_credentials(encrypted=False)
_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="punches holes into a file")


def _run(body: str) -> subprocess.CompletedProcess[str]:
    """Run some lines in a process that has an Output, and print what it took to its own console."""
    program = """
        import ctypes, logging, os, subprocess, sys, threading, warnings
        from udfs.heartbeat import Output
        output = Output()
        output.start()
        output.begin("a1", "c001", "train c001 on w0")
        {body}
        printed = output.take("a1")
        output.stop()
        print(repr(printed))
    """
    lines = textwrap.dedent(program).replace("{body}", textwrap.dedent(body).strip())
    return subprocess.run([sys.executable, "-c", lines], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("print('a step')", "a step\\n"),
        ("sys.stderr.write('a step')", "a step"),
        ("ctypes.CDLL(None).puts(b'a step of C')", "a step of C\\n"),
        ("logging.warning('a warning')", "WARNING:root:a warning\\n"),
        ("warnings.warn('careful')", "UserWarning: careful"),
        ("os.system('echo a child')", "a child\\n"),
        ("os.write(1, bytes([65, 255, 66]))", "A\\ufffdB"),
        ("t = threading.Thread(target=print, args=('a thread',)); t.start(); t.join()", "a thread\\n"),
    ],
)
def test_all_that_a_unit_prints_is_taken_and_nothing_is_on_the_console(body: str, text: str) -> None:
    done = _run(body)
    assert done.returncode == 0, done.stderr
    printed: Printed = eval(done.stdout, {"Printed": Printed})  # of the process above
    assert printed.trial_id == "c001"
    assert printed.first.startswith("[train c001 on w0]\n")
    assert text.encode().decode("unicode_escape") in printed.first
    assert done.stderr == ""


def test_a_unit_that_prints_nothing_has_nothing() -> None:
    assert _run("pass").stdout == "None\n"


def test_this_projects_own_warnings_are_on_the_console() -> None:
    done = _run("logging.getLogger('udfs.hopper').warning('of the worker')")
    assert (done.stdout, done.stderr) == ("None\n", "of the worker\n")


@pytest.fixture
def output() -> Iterator[Output]:
    output = Output()
    yield output
    output.stop()


def _filled(output: Output, size: int) -> bytes:
    output.begin("a1", "c001", "train")
    data = os.urandom(size // 2).hex().encode()
    os.write(output.descriptor, data)
    return data


@pytest.mark.parametrize("size", [KEPT_BYTES, KEPT_BYTES + 2, 2 * KEPT_BYTES, 2 * KEPT_BYTES + 2, 5 * KEPT_BYTES])
def test_the_beginning_and_the_end_are_kept(output: Output, size: int) -> None:
    data = _filled(output, size).decode()
    printed = read_printed(output.descriptor, "a1")
    assert printed is not None
    first = printed.first.removeprefix("[train]\n")
    assert len(first) + printed.omitted + len(printed.last) == size
    assert printed.omitted == max(0, size - 2 * KEPT_BYTES)
    assert data.startswith(first)
    assert data.endswith(printed.last)


@_LINUX
def test_the_middle_of_a_large_output_takes_no_disk(output: Output) -> None:
    _filled(output, 64 * KEPT_BYTES)
    before, blocks = read_printed(output.descriptor, "a1"), os.fstat(output.descriptor).st_blocks
    release_middle(output.descriptor)
    if os.fstat(output.descriptor).st_blocks == blocks:
        pytest.skip("this file system keeps the blocks of a hole")
    assert os.fstat(output.descriptor).st_blocks * 512 < 4 * KEPT_BYTES
    assert read_printed(output.descriptor, "a1") == before


@pytest.mark.parametrize("death", ["os._exit(7)", "ctypes.string_at(0)", "os.kill(os.getpid(), 9)", "heartbeat.stop()"])
def test_the_driver_hears_of_the_end_and_of_what_was_printed_last(death: str) -> None:
    ended: list[Ended] = []

    def answer(request: object) -> Acknowledged:
        if isinstance(request, Ended):
            ended.append(request)
        return Acknowledged()

    program = f"""
        import ctypes, os, sys
        from udfs.heartbeat import Heartbeat, Output
        from udfs.hopper import HOPPER
        from udfs.rpc import Credentials
        secret, location = sys.stdin.read().split()
        output = Output()
        heartbeat = Heartbeat("w0", "a1", location, Credentials(bytes.fromhex(secret)), HOPPER, output=output)
        output.start()
        heartbeat.start()
        output.begin("a1", "c001", "train c001 on w0")
        print("about to die")
        {death}
    """
    with Endpoint("127.0.0.1", CREDENTIALS, HOPPER, answer) as endpoint:
        # Its console is closed by the process beside it, which has told the driver by then.
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=ROOT,
            input=f"{CREDENTIALS.secret.hex()} {endpoint.location}",
            capture_output=True,
            text=True,
            check=False,
        )
    printed = Printed("c001", "[train c001 on w0]\nabout to die\n", 0, "")
    assert ended == [Ended(worker="w0", attempt="a1", printed=printed)]
