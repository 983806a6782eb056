"""Notices that a worker's machine is about to end, by signals and by a file."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from udfs.hopper._interruption import NOTICE_VARIABLE, Interruption

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_a_notice_and_the_former_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    interruption = Interruption(50.0)
    with interruption.listening():
        assert not interruption.is_noticed()
        os.kill(os.getpid(), number)
        interruption.wait()
        assert interruption.unit_s <= 40 < interruption.remaining_s <= 50
    assert signal.getsignal(number) is before


def test_a_second_notice_does_not_extend_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    interruption = Interruption(30.0)
    interruption.notice()
    now[0] = 125.0
    interruption.notice()
    assert interruption.remaining_s == 5.0
    assert interruption.unit_s == 0.0, "the rest is for the states"


def test_a_file_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTICE_VARIABLE, str(tmp_path / "notice"))
    monkeypatch.setattr("udfs.hopper._interruption._LOOK_S", 0.01)
    interruption = Interruption(30.0)
    waiting = threading.Thread(target=interruption.wait)
    waiting.start()
    (tmp_path / "notice").touch()
    waiting.join(30)
    assert interruption.is_noticed()


def test_a_file_that_an_earlier_notice_left_is_no_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "notice"
    file.touch()
    monkeypatch.setenv(NOTICE_VARIABLE, str(file))
    monkeypatch.setattr("udfs.hopper._interruption._LOOK_S", 0.01)
    os.utime(file, (time.time() - 31.0,) * 2)
    interruption = Interruption(30.0)
    waiting = threading.Thread(target=interruption.wait)
    waiting.start()
    waiting.join(0.2)
    assert not interruption.is_noticed()
    file.touch()
    waiting.join(30)
    assert interruption.is_noticed(), "a new notice counts"


def test_a_thread_that_is_not_the_main_one_handles_no_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def listen() -> None:
        with Interruption(1.0).listening():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [before]
