"""Waiting for a router's answer: until its deadline, or until the client hangs up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from udfs.serving import ServerStoppedError, TooLateError
from udfs.serving.http._errors import DisconnectedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor, Future

    import numpy as np
    from starlette.requests import Request

    Answer = Future[Mapping[str, np.ndarray]]

__all__ = ["answer_or_give_up"]

_T = TypeVar("_T")


async def answer_or_give_up(
    submit: Callable[[], Answer], threads: Executor, request: Request, seconds: float
) -> Mapping[str, np.ndarray]:
    """Submit a request and wait for its answer; on every other way out its future is cancelled.

    Parameters
    ----------
    submit : callable
        Asks the router. It runs in a thread, for it may write the inputs to a socket.
    threads : Executor
    request : Request
        Its body has been read.
    seconds : float
        How long to wait.

    Raises
    ------
    ServerStoppedError
        The router cancelled it.
    TooLateError
        There is no answer.
    DisconnectedError
        The client hung up.
    """
    ends = asyncio.get_running_loop().time() + seconds
    hangup = asyncio.ensure_future(_hangup(request))
    submitted = threads.submit(submit)
    try:
        answer = await _first(asyncio.wrap_future(submitted), hangup, ends)
        return await _first(asyncio.wrap_future(answer), hangup, ends)
    finally:
        hangup.cancel()
        submitted.cancel()
        submitted.add_done_callback(_cancel)


async def _first(awaited: asyncio.Future[_T], hangup: asyncio.Future[None], ends: float) -> _T:
    left = max(0.0, ends - asyncio.get_running_loop().time())
    both: set[asyncio.Future[Any]] = {awaited, hangup}
    await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    if awaited.cancelled():
        raise ServerStoppedError("the server gave the request up")
    if awaited.done():
        return awaited.result()
    awaited.cancel()
    if hangup.done():
        raise DisconnectedError("the client hung up")
    raise TooLateError("the deadline went by before an answer was there")


async def _hangup(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _cancel(submitted: Future[Answer]) -> None:
    """Cancel the answer's future, also where the router gives it only now; it does nothing to one that is done."""
    if submitted.cancelled() or submitted.exception() is not None:
        return
    with suppress(RuntimeError):
        submitted.result().cancel()
