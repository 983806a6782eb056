"""Routes of the REST API that analyse an experiment: narrowed space, importance, best value over time, notebook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from cerebro_spark.steering.server._ascii_json import AsciiJson
from cerebro_spark.steering.server._notebook import notebook
from optimizer.steering import best_so_far, importances, narrowed_space
from udfs.web import viewer

if TYPE_CHECKING:
    from cerebro_spark.steering.server._board import Board

__all__ = ["analysis_router"]

_Best = Annotated[int, Query(ge=1, le=1000)]


def analysis_router(board: Board) -> APIRouter:
    """Return the routes below ``/api/v1/experiments/{run}`` that analyse an experiment."""
    router = APIRouter(
        prefix="/api/v1/experiments/{run}",
        tags=["experiments"],
        dependencies=[Depends(viewer)],
        default_response_class=AsciiJson,
    )

    @router.get("/narrowed")
    def narrow_space(run: str, best: _Best = 5) -> dict[str, Any]:
        with board.reading() as connection:
            row = board.row(connection, run)
            return narrowed_space(board.progress(connection, row), best, row.settings.get("search_space")).document()

    @router.get("/importance")
    def rank_hyperparameters(run: str) -> dict[str, Any]:
        with board.reading() as connection:
            progress = board.progress(connection, board.row(connection, run))
            return {"metric": progress.metric, "importance": importances(progress)}

    @router.get("/best")
    def list_improvements(run: str) -> dict[str, Any]:
        with board.reading() as connection:
            progress = board.progress(connection, board.row(connection, run))
            return {"metric": progress.metric, "mode": progress.mode, "steps": best_so_far(progress)}

    @router.get("/notebook", response_class=Response)
    def export_notebook(run: str) -> Response:
        with board.reading() as connection:
            row = board.row(connection, run)
            settings = {"run": row.run, "store": row.store, **{name: row.settings[name] for name in ("metric", "mode")}}
        return Response(
            json.dumps(notebook(**settings), indent=1),
            media_type="application/x-ipynb+json",
            headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(run, safe='')}.ipynb"},
        )

    return router
