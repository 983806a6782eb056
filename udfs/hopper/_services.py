"""Services of a worker's process: a thread for each run, and one that trains for all."""

from __future__ import annotations

import os
import threading
import traceback
import uuid
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from udfs.handlers import changed_settings, framework, register_framework, settings_kept, take_settings
from udfs.heartbeat import Output
from udfs.hopper._interruption import Interruption
from udfs.hopper._messages import HOPPER
from udfs.hopper._pool import POOL, AskRuns, Close, ServiceEnded
from udfs.hopper._process_place import Place
from udfs.hopper._process_turns import Turn
from udfs.hopper._service import Service
from udfs.hopper._settings import WorkerSettings
from udfs.node import limit_threads
from udfs.rpc import Caller, CallError, RefusedError

if TYPE_CHECKING:
    from udfs.hopper._pool import PooledRun
    from udfs.rpc import Credentials

__all__ = ["Services"]

_CALL_S = 30.0

# For the driver to hear that the process leaves; it may be gone.
_LEAVE_S = 5.0

# Exit status of a process that was interrupted, as a shell has it for SIGTERM.
_INTERRUPTED = 128 + 15

# What the user's function has captured may be large.
_SETTINGS_S = 600.0

# Of a traceback: its end says what went wrong.
_LONGEST_ERROR = 8_000


class Services:
    """The runs that this process serves, as its pool's driver says.

    Parameters
    ----------
    credentials : Credentials
        The pool's; those of each run are derived from them.
    grace_s : float
        Seconds between the notice that the machine is about to end, such as SIGTERM, and the end. Default 30.
    """

    def __init__(self, worker: str, driver: str, credentials: Credentials, grace_s: float = 30.0) -> None:
        self._worker = worker
        self._process = uuid.uuid4().hex
        self._credentials = credentials
        self._driver = Caller(driver, credentials, POOL)
        self._turn = Turn()
        self._output = Output()
        self._interruption = Interruption(grace_s)
        self._open: dict[int, Service] = {}

    def serve(self) -> None:
        """Serve until the pool closes; in the process's main thread, which trains.

        Raises
        ------
        CallError, RefusedError
            The driver does not answer, or refuses.
        """
        self._output.start()
        try:
            with self._interruption.listening():
                threading.Thread(target=self._follow, name="runs", daemon=True).start()
                leaving = threading.Thread(target=self._leave, name="interruption", daemon=True)
                leaving.start()
                self._turn.work()
                if self._interruption.is_noticed():
                    leaving.join()  # it ends the process
        finally:
            self._output.stop()
            self._driver.close()

    def _follow(self) -> None:
        threads: list[threading.Thread] = []
        after = 0
        try:
            while True:
                asked = AskRuns(worker=self._worker, process=self._process, after=after)
                reply = self._driver.call(asked, timeout_s=_CALL_S)
                if isinstance(reply, Close):
                    break
                for run in reply.runs:
                    threads.append(threading.Thread(target=self._serve, args=(run,), name=run.name, daemon=True))
                    threads[-1].start()
                    after = max(after, run.start)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._turn.stop(error)
            return
        for thread in threads:
            thread.join()
        self._turn.stop()

    def _leave(self) -> None:
        """After a notice, hand over the states of all runs, wait for the unit in flight, and end the process."""
        self._interruption.wait()
        ended = ServiceEnded(
            worker=self._worker, process=self._process, start=0, error="", cpu_seconds=0.0, interrupted=True
        )
        with suppress(CallError, RefusedError):
            self._driver.call(ended, timeout_s=_LEAVE_S)
        services = list(self._open.values())
        for service in services:
            service.hand_over()
        for service in services:
            if not service.left.wait(self._interruption.unit_s):
                # The unit does not end in time: another worker runs it again.
                service.leave()
        self._output.stop()
        os._exit(_INTERRUPTED)

    def _serve(self, run: PooledRun) -> None:
        error, cpu_seconds = "", 0.0
        try:
            cpu_seconds = self._served(run)
        except BaseException:  # noqa: BLE001 - the driver hears of it
            error = traceback.format_exc()[-_LONGEST_ERROR:]
        ended = ServiceEnded(
            worker=self._worker, process=self._process, start=run.start, error=error, cpu_seconds=cpu_seconds
        )
        with suppress(CallError, RefusedError):  # the pool has closed
            self._driver.call(ended, timeout_s=_CALL_S)

    def _served(self, run: PooledRun) -> float:
        """Serve a run to its end, and give the seconds of the CPU that it took."""
        credentials = self._credentials.derived(run.name)
        caller = Caller(run.location, credentials, HOPPER)
        place = Place(self._turn, caller, self._worker, uuid.uuid4().hex)
        try:
            content = caller.fetch(self._worker, timeout_s=_SETTINGS_S)
            # Modules of the user's may do anything as they are imported: another run's unit is not to see it.
            if not place.take():
                return 0.0
            settings = self._turn.call(partial(_opened, content))
            place.give_up()
            with Service(settings, run.location, credentials, place, self._output, self._interruption) as service:
                self._open[run.start] = service
                try:
                    service.serve()
                finally:
                    service.left.set()
                    self._open.pop(run.start)
                return service.cpu_seconds
        finally:
            place.leave()
            caller.close()


def _opened(content: bytes) -> WorkerSettings:
    before = take_settings()
    with settings_kept():
        # The user's modules may change settings of the process when they are imported: apply them to this run only.
        settings = WorkerSettings.unpacked(content)
        settings = replace(settings, process=changed_settings(before, take_settings()))
    register_framework(*settings.registered)
    limit_threads(settings.threads)
    for name in settings.frameworks:
        # Building a model raises the error of a framework that is not installed here.
        with suppress(ImportError):
            framework(name)
    return settings
