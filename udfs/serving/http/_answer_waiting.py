"""Waiting for an answer of a router, until its deadline or until the client disconnects."""

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
    """Submit a request and wait for its answer; cancel it in every other case.

    Parameters
    ----------
    submit : callable
        Submits the request to the router. It runs in a thread, since it may write the inputs to a socket.

    Raises
    ------
    ServerStoppedError
        The router cancelled the request.
    TooLateError
        There is no answer in time.
    DisconnectedError
        The client disconnected.
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
        raise ServerStoppedError("The server cancelled the request.")
    if awaited.done():
        return awaited.result()
    awaited.cancel()
    if hangup.done():
        raise DisconnectedError("The client disconnected.")
    raise TooLateError("The deadline passed before an answer was ready.")


async def _hangup(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _cancel(submitted: Future[Answer]) -> None:
    """Cancel the answer's future, even if the router returns it only now."""
    if submitted.cancelled() or submitted.exception() is not None:
        return
    with suppress(RuntimeError):
        submitted.result().cancel()
