"""Routes of the REST API for runners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends

from cerebro_spark.steering.server import _reports
from cerebro_spark.steering.server._ascii_json import AsciiJson
from cerebro_spark.steering.server._bodies import (  # noqa: TC001 - FastAPI reads the annotations
    EndBody,
    EventsBody,
    OutcomeBody,
    SettingsBody,
)
from cerebro_spark.steering.server._request_routes import Wait, waited
from udfs.web import runner

if TYPE_CHECKING:
    from cerebro_spark.steering.server._board import Board
    from udfs.web import Changes

__all__ = ["runner_router"]


def runner_router(board: Board, changes: Changes) -> APIRouter:
    """Return the routes below ``/api/v1/runner`` that take the events of runs and hand out commands."""
    router = APIRouter(
        prefix="/api/v1/runner/experiments/{run}",
        tags=["runner"],
        dependencies=[Depends(runner)],
        default_response_class=AsciiJson,
    )

    @router.put("")
    def register(run: str, body: SettingsBody) -> dict[str, Any]:
        return _reports.register(board, run, body.model_dump())

    @router.post("/events")
    def report_events(run: str, body: EventsBody) -> dict[str, Any]:
        return _reports.report_events(board, run, body.stream, body.documents)

    @router.get("/commands")
    async def wait_for_commands(run: str, wait: Wait = 0.0) -> dict[str, Any]:
        def read() -> tuple[bool, dict[str, Any]]:
            pending = _reports.pending_commands(board, run)
            return bool(pending), {"commands": pending}

        return await waited(changes, wait, read)

    @router.post("/commands/{ident}")
    def report_outcome(run: str, ident: str, body: OutcomeBody) -> dict[str, Any]:
        result = {"message": body.message, "trial": body.trial}
        return {"command": _reports.report_outcome(board, run, ident, body.state, result)}

    @router.post("/ended")
    def end_experiment(run: str, body: EndBody) -> dict[str, Any]:
        return _reports.end_experiment(board, run, body.error)

    return router
