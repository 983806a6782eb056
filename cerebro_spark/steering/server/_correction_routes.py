"""Routes of the REST API for corrections of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt
from starlette.responses import Response

from cerebro_spark.steering.server import _corrections
from cerebro_spark.steering.server._ascii_json import AsciiJson
from udfs.web import Principal, editor, viewer

if TYPE_CHECKING:
    from cerebro_spark.steering.server._board import Board

__all__ = ["CorrectionBody", "correction_router"]

_Editor = Annotated[Principal, Depends(editor)]
_Text = Annotated[str, Field(max_length=1000, strict=True)]
# JavaScript and SQLite round larger numbers.
_Finite = Annotated[StrictFloat, Field(gt=-(1 << 53), lt=1 << 53)]
_Whole = Annotated[StrictInt, Field(gt=-(1 << 53), lt=1 << 53)]
_Column = Annotated[str, Query(min_length=1, max_length=1000)]
_Value = StrictBool | _Whole | _Finite | _Text


class CorrectionBody(BaseModel):
    """Decision on the label of a row."""

    model_config = ConfigDict(extra="forbid")

    row: _Whole | _Finite | _Text
    label: _Value
    given_label: _Value | None = None
    replaces: Annotated[int | None, Field(ge=1, lt=1 << 62, strict=True)] = None


def correction_router(board: Board) -> APIRouter:
    """Return the routes below ``/api/v1`` for corrections: viewers read them, editors decide."""
    router = APIRouter(prefix="/api/v1", tags=["corrections"], default_response_class=AsciiJson)
    read = [Depends(viewer)]

    @router.get("/experiments/{run}/corrections", dependencies=read)
    def list_corrections(run: str) -> dict[str, Any]:
        return {"corrections": _corrections.corrections(board, run)}

    @router.get(
        "/experiments/{run}/corrections.csv",
        dependencies=read,
        response_class=Response,
        responses={200: {"content": {"text/csv": {}}}},
    )
    def export_corrections(run: str, id_column: _Column = "id") -> Response:
        text = _corrections.corrections_csv(board, run, id_column)
        headers = {"Content-Disposition": 'attachment; filename="corrections.csv"'}
        return Response(text.encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=headers)

    @router.post("/experiments/{run}/corrections", status_code=201)
    def correct(run: str, body: CorrectionBody, user: _Editor) -> dict[str, Any]:
        return {"correction": _corrections.correct(board, run, body.model_dump(), user=user.name)}

    @router.delete("/experiments/{run}/corrections/{number}", status_code=204)
    def withdraw(run: str, number: int, _user: _Editor) -> None:
        _corrections.withdraw_correction(board, run, number)

    return router
