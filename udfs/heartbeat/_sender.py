"""Main loop of the child process that sends the heartbeats of its parent, and reports the parent's end."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from contextlib import suppress

from udfs.heartbeat._messages import Abort, Beat, Ended
from udfs.heartbeat._printed_output import read_printed, release_middle
from udfs.heartbeat._process_state import ProcessState, process_state
from udfs.rpc import Caller, CallError, Credentials, RefusedError, WireProtocol

__all__ = ["send"]

_LOG = logging.getLogger(__name__)

_BEAT_S = 1.0

# Timeout of one call in seconds. Several calls fit into the time after which the driver considers a worker lost.
_CALL_S = 5.0

# Seconds to wait until a killed process is gone.
_GONE_S = 5.0


def send(  # noqa: PLR0913 - options by name
    *,
    parent: int,
    worker: str,
    attempt: str,
    driver: str,
    secret: str,
    certificate: str,
    protocol: str,
    version: int,
    lost_s: float,
    output: int | None,
) -> None:
    """Send a heartbeat once a second, from the next line of the standard input until the input ends.

    Kill the parent process with ``SIGKILL`` if the driver has given it up or does not answer any more. This works even
    if no thread of the parent can run.

    Parameters
    ----------
    parent : int
        Process id of the parent. When it dies, this process ends as well, within a second or one call.
    secret : str
        Secret of the run, in hexadecimal digits.
    certificate : str
        Certificate of the run in PEM format; empty if the run does not encrypt.
    lost_s : float
        Seconds without an answer after which the driver is considered lost.
    """
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    caller = Caller(
        driver, Credentials(bytes.fromhex(secret), certificate), WireProtocol(protocol, version, (Beat, Ended))
    )
    beat = Beat(worker=worker, attempt=attempt)
    if not sys.stdin.buffer.readline():
        return
    if not _beat_on(caller, beat, parent, lost_s, output):
        return
    printed = None if output is None else read_printed(output, attempt)
    with suppress(CallError, RefusedError):
        caller.call(Ended(worker=worker, attempt=attempt, printed=printed), timeout_s=_CALL_S)


def _beat_on(caller: Caller, beat: Beat, parent: int, lost_s: float, output: int | None) -> bool:
    """Send heartbeats until the parent has finished or died; return False if the driver is lost."""
    worker, heard = beat.worker, time.monotonic()
    while not _input_ended(_BEAT_S) and os.getppid() == parent:
        if output is not None:
            release_middle(output)
        state = process_state(parent)
        if state is ProcessState.GONE:
            return True
        if state is ProcessState.STOPPED:
            # Send no heartbeat, so that the driver considers the worker lost if this lasts.
            heard = time.monotonic()
            continue
        try:
            reply = caller.call(beat, timeout_s=_CALL_S)
        except (CallError, RefusedError) as error:
            if time.monotonic() - heard > lost_s:
                _end(parent, worker, f"the driver has not answered for {lost_s:.0f} s: {error}")
                return False
        else:
            heard = time.monotonic()
            if isinstance(reply, Abort):
                _end(parent, worker, "the driver gave up on what it does")
                return True
    return True


def _input_ended(timeout_s: float) -> bool:
    """Wait for the end of the standard input: the parent writes no more lines, so only its end is readable."""
    return bool(select.select([sys.stdin], [], [], timeout_s)[0])


def _end(parent: int, worker: str, why: str) -> None:
    if os.getppid() == parent and not _input_ended(0.0):
        _LOG.error("worker %s is ended: %s", worker, why)
        os.kill(parent, signal.SIGKILL)
        until = time.monotonic() + _GONE_S
        while os.getppid() == parent and process_state(parent) is not ProcessState.GONE and time.monotonic() < until:
            time.sleep(0.01)
