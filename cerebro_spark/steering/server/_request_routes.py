"""Routes of the REST API for requests, pools and uploaded files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool

from cerebro_spark.steering.server import _requests
from cerebro_spark.steering.server._ascii_json import AsciiJson
from cerebro_spark.steering.server._bodies import RequestBody  # noqa: TC001 - FastAPI reads the annotations
from udfs.web import Principal, editor, viewer

if TYPE_CHECKING:
    from collections.abc import Callable

    from cerebro_spark.steering.server._blobs import Blobs
    from cerebro_spark.steering.server._board import Board
    from udfs.web import Changes

__all__ = ["Wait", "request_router", "request_view_router", "waited"]

_LONGEST_WAIT_S = 60.0
Wait = Annotated[float, Query(ge=0, le=_LONGEST_WAIT_S)]
_Editor = Annotated[Principal, Depends(editor)]
_Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
_Text = Annotated[str, Query(max_length=1000)]


async def waited(changes: Changes, seconds: float, read: Callable[[], tuple[bool, dict[str, Any]]]) -> dict[str, Any]:
    """Return what a function reads once it is complete, or the time is over, or the server stops.

    Parameters
    ----------
    changes : udfs.web.Changes
        Notified after each change.
    seconds : float
        Longest time.
    read : callable
        Returns whether the document is complete, and the document. It runs in a thread.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    with changes.subscribe() as subscription:
        while True:
            subscription.clear()
            is_complete, document = await run_in_threadpool(read)
            left = until - loop.time()
            if is_complete or left <= 0 or subscription.is_closed:
                return document
            await subscription.wait(left)


def request_view_router(board: Board, changes: Changes) -> APIRouter:
    """Return the routes below ``/api/v1`` that read pools and requests."""
    router = APIRouter(
        prefix="/api/v1", tags=["requests"], dependencies=[Depends(viewer)], default_response_class=AsciiJson
    )

    @router.get("/pools")
    def list_pools() -> dict[str, Any]:
        return {"pools": _requests.list_pools(board)}

    @router.get("/requests")
    def list_requests(kind: _Text = "", pool: _Text = "", run: _Text = "") -> dict[str, Any]:
        return {"requests": _requests.list_requests(board, kind, pool, run)}

    @router.get("/requests/{ident}")
    async def get_request(
        ident: str, wait: Wait = 0.0, revision: Annotated[int, Query(ge=-1, lt=1 << 62)] = -1
    ) -> dict[str, Any]:
        def read() -> tuple[bool, dict[str, Any]]:
            record = _requests.get_request(board, ident)
            return record["revision"] > revision, {"request": record}

        return await waited(changes, wait, read)

    return router


def request_router(board: Board, blobs: Blobs) -> APIRouter:
    """Return the routes below ``/api/v1`` that take requests and files."""
    router = APIRouter(
        prefix="/api/v1", tags=["requests"], dependencies=[Depends(editor)], default_response_class=AsciiJson
    )

    @router.post("/requests", status_code=201)
    def send_request(body: RequestBody, user: _Editor, key: _Key = None) -> dict[str, Any]:
        return {"request": _requests.accept_request(board, body.model_dump(), user=user.name, key=key)}

    @router.delete("/requests/{ident}")
    def cancel_request(ident: str, user: _Editor) -> dict[str, Any]:
        return {"request": _requests.cancel_request(board, ident, user.name)}

    @router.post("/blobs", status_code=201)
    async def upload(request: Request) -> dict[str, Any]:
        content = await request.body()
        return {"sha256": await run_in_threadpool(blobs.store, content), "size": len(content)}

    return router
