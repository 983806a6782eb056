"""Time limit of the user's code that the driver runs before a worker starts."""

from __future__ import annotations

import contextvars
import ctypes
import logging
import math
import sys
import sysconfig
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cerebro_spark.errors import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["cancellable_trials", "run_trial"]

_LOG = logging.getLogger(__name__)

_Result = TypeVar("_Result")

# Files of Python and of installed packages.
_INSTALLED = ("<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))

# Least limit: the first trial of a process imports parts of its framework, which no worker does in a unit.
_LEAST_S = 10.0

# Seconds after which a trial without an end is logged.
_NOTICE_S = 30.0

# Seconds between two calls of the function that cancels trials.
_LOOK_S = 0.5

_CHECK: contextvars.ContextVar[Callable[[], object] | None] = contextvars.ContextVar("check", default=None)


@contextmanager
def cancellable_trials(check: Callable[[], object]) -> Iterator[None]:
    """Call a function twice a second while a trial of the ``with`` block runs; an error that it raises ends the trial.

    Parameters
    ----------
    check : callable
        Function without arguments, which raises to cancel the trial.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def run_trial(work: Callable[[], _Result], params: Mapping[str, Any], limit_s: float | None) -> _Result:
    """Run the user's code for a configuration on the driver, for a limited time.

    A trial that takes more than 30 seconds is logged once, with the line where it is. With a limit it runs in a thread
    of its own. After the limit, or an interrupt by the user, that thread is told to end, and no longer waited for: code
    that waits ends when it returns. The same holds for a trial that is cancelled, see :func:`cancellable_trials`.
    Without both, the trial runs in the calling thread.

    Parameters
    ----------
    work : callable
        Function without arguments.
    params : mapping
        Configuration, for messages.
    limit_s : float or None
        Limit in seconds; smaller ones than 10 count as 10. None is no limit.

    Returns
    -------
    object
        Result of the function.

    Raises
    ------
    TrainerError
        The trial took longer than the limit. Errors of the function, and of the check that cancels it, pass too.
    """
    check = _CHECK.get()
    if limit_s is None and check is None:
        with _noticed(params, threading.get_ident()):
            return work()
    if check is not None:
        check()
    seconds = math.inf if limit_s is None else max(_LEAST_S, limit_s)
    results: list[_Result] = []
    errors: list[BaseException] = []
    over = threading.Event()

    def run() -> None:
        try:
            if not over.is_set():
                results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(error)
        finally:
            over.set()

    context = contextvars.copy_context()  # with numpy's handling of errors, among others
    thread = threading.Thread(target=context.run, args=(run,), name="trial", daemon=True)
    try:
        # An interrupt may come while the thread starts.
        thread.start()
        with _noticed(params, thread.ident):
            _wait(over, seconds, check)
        if not over.is_set():
            raise TrainerError(
                f"trainer_fn must build a model and train a step within {seconds:g} seconds on the driver "
                f"(unit_timeout_s={limit_s:g}), got no end for {dict(params)}{_place(thread.ident)}. Remove what it "
                f"waits for, or set unit_timeout_s to more than {seconds:g}"
            )
    finally:
        if not over.is_set():
            over.set()
            _end(thread.ident)
    if errors:
        raise errors[0]
    return results[0]


def _wait(over: threading.Event, seconds: float, check: Callable[[], object] | None) -> None:
    """Wait until a trial is over, for a limited time; raise what the check raises meanwhile."""
    until = time.monotonic() + seconds
    longest = threading.TIMEOUT_MAX if check is None else _LOOK_S
    while not over.is_set() and (left := until - time.monotonic()) > 0:
        if check is not None:
            check()
        over.wait(min(left, longest))


def _end(ident: int | None) -> None:
    """Raise SystemExit in a thread at its next step of Python code."""
    if ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(SystemExit))


@contextmanager
def _noticed(params: Mapping[str, Any], ident: int | None) -> Iterator[None]:
    """Log once that a trial still runs, if it does after some seconds."""

    def note() -> None:
        _LOG.warning(
            "trainer_fn(%s) has not trained its first step on the driver after %g seconds%s; unit_timeout_s limits it",
            dict(params),
            _NOTICE_S,
            _place(ident),
        )

    timer = threading.Timer(_NOTICE_S, note)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _place(ident: int | None) -> str:
    """Name the innermost line of a thread outside of Python and of installed packages."""
    frame = None if ident is None else sys._current_frames().get(ident)  # noqa: SLF001 - as faulthandler reads them
    while frame is not None and frame.f_code.co_filename.startswith(_INSTALLED):
        frame = frame.f_back
    if frame is None:
        return ""
    code = frame.f_code
    return f": it is at line {frame.f_lineno} of {code.co_filename}, in {code.co_name}()"
