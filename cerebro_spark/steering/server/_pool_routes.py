"""Routes of the REST API for the runners of pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from cerebro_spark.steering.server import _pool_reports
from cerebro_spark.steering.server._ascii_json import AsciiJson
from cerebro_spark.steering.server._bodies import PoolBody, ReportBody  # noqa: TC001 - FastAPI reads the annotations
from cerebro_spark.steering.server._request_routes import Wait, waited
from udfs.web import runner

if TYPE_CHECKING:
    from cerebro_spark.steering.server._blobs import Blobs
    from cerebro_spark.steering.server._board import Board
    from udfs.web import Changes

__all__ = ["pool_router"]

_Session = Annotated[str, Query(max_length=100)]


def pool_router(board: Board, changes: Changes, blobs: Blobs) -> APIRouter:
    """Return the routes below ``/api/v1/runner`` that hand out requests and take their outcomes."""
    router = APIRouter(
        prefix="/api/v1/runner", tags=["runner"], dependencies=[Depends(runner)], default_response_class=AsciiJson
    )

    @router.put("/pools/{name}")
    def register_pool(name: str, body: PoolBody) -> dict[str, Any]:
        return _pool_reports.register_pool(board, name, body.model_dump())

    @router.delete("/pools/{name}")
    def remove_pool(name: str, session: _Session = "") -> dict[str, Any]:
        return _pool_reports.remove_pool(board, name, session)

    @router.get("/pools/{name}/requests")
    async def wait_for_requests(
        name: str, wait: Wait = 0.0, session: _Session = "", after: Annotated[int, Query(ge=0, lt=1 << 62)] = 0
    ) -> dict[str, Any]:
        def read() -> tuple[bool, dict[str, Any]]:
            due = _pool_reports.requests_of_pool(board, name, session, after)
            return bool(due["requests"] or due["cancelled"]), due

        # Once: a pool that closes meanwhile is gone, although this request of it still waits.
        await run_in_threadpool(_pool_reports.see_pool, board, name, session)
        return await waited(changes, wait, read)

    @router.post("/requests/{ident}")
    def report_request(ident: str, body: ReportBody, session: _Session = "") -> dict[str, Any]:
        return _pool_reports.report_request(board, ident, session, body.model_dump())

    @router.get("/blobs/{sha256}", response_class=Response)
    def download(sha256: str) -> Response:
        # Never shown by a browser: an upload of a user must not become a page of this server.
        headers = {"Content-Disposition": "attachment"}
        return Response(blobs.read(sha256), media_type="application/octet-stream", headers=headers)

    return router
