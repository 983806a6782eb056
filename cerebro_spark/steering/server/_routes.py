"""Routes of the REST API for viewers and editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from cerebro_spark.builtin import builtin_models
from cerebro_spark.steering.server import _bulk, _steering, _views
from cerebro_spark.steering.server._ascii_json import AsciiJson
from cerebro_spark.steering.server._bodies import BulkBody, CommandBody  # noqa: TC001 - FastAPI reads the annotations
from udfs.web import EventSource, EventStream, Principal, editor, viewer

if TYPE_CHECKING:
    from cerebro_spark.steering.server._board import Board
    from udfs.web import Changes

__all__ = ["command_router", "view_router"]

_Editor = Annotated[Principal, Depends(editor)]
_Cursor = Annotated[int, Query(ge=0, lt=1 << 62)]
_Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


def view_router(board: Board, changes: Changes) -> APIRouter:
    """Return the routes below ``/api/v1`` that read experiments."""
    router = APIRouter(
        prefix="/api/v1", tags=["experiments"], dependencies=[Depends(viewer)], default_response_class=AsciiJson
    )

    @router.get("/experiments")
    def list_experiments() -> dict[str, Any]:
        return {"experiments": _views.experiments(board)}

    @router.get("/models")
    def list_models() -> dict[str, Any]:
        return {"models": builtin_models()}

    @router.get("/experiments/{run}")
    def get_experiment(run: str) -> dict[str, Any]:
        return {"experiment": _views.experiment(board, run)}

    @router.get("/experiments/{run}/configurations")
    def list_configurations(run: str, status: str = "", owner: str | None = None, sort: str = "") -> dict[str, Any]:
        return {"configurations": _views.configurations(board, run, status, owner, sort)}

    @router.get("/experiments/{run}/metrics")
    def list_metrics(run: str, name: str = "", since: _Cursor = 0) -> dict[str, Any]:
        return _views.metrics(board, run, name, since)

    @router.get("/experiments/{run}/units")
    def list_units(run: str, since: _Cursor = 0) -> dict[str, Any]:
        return _views.units(board, run, since)

    @router.get("/experiments/{run}/commands")
    def list_commands(run: str) -> dict[str, Any]:
        return {"commands": _views.commands(board, run)}

    @router.get("/events")
    def follow_events(request: Request, experiment: str = "") -> Response:
        return EventStream(
            request, EventSource(lambda since, limit: _views.events_since(board, experiment, since, limit), changes)
        )

    return router


def command_router(board: Board) -> APIRouter:
    """Return the routes below ``/api/v1`` that take commands."""
    router = APIRouter(
        prefix="/api/v1", tags=["commands"], dependencies=[Depends(editor)], default_response_class=AsciiJson
    )

    @router.post("/experiments/{run}/commands", status_code=201)
    def send_command(run: str, body: CommandBody, user: _Editor, key: _Key = None) -> dict[str, Any]:
        accepted = _steering.accept_command(
            board, run, body.document(), revision=body.revision, user=user.name, key=key
        )
        return {"command": accepted}

    @router.post("/experiments/{run}/effects")
    def predict_effect(run: str, body: CommandBody, _user: _Editor) -> dict[str, Any]:
        return {"effect": _steering.predict_effect(board, run, body.document(), revision=body.revision)}

    @router.post("/experiments/{run}/commands/bulk", status_code=201)
    def send_commands(run: str, body: BulkBody, user: _Editor, key: _Key = None) -> dict[str, Any]:
        return _bulk.accept_commands(board, run, body.document(), user=user.name, key=key)

    @router.post("/experiments/{run}/effects/bulk")
    def predict_effects(run: str, body: BulkBody, _user: _Editor) -> dict[str, Any]:
        return _bulk.predict_effects(board, run, body.document())

    @router.delete("/commands/{ident}")
    def withdraw_command(ident: str, user: _Editor) -> dict[str, Any]:
        return {"command": _steering.withdraw_command(board, ident, user.name)}

    return router
