"""Route of the page, which sends requests to a pool over the REST API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from udfs.web import Page, Principal, render, viewer

__all__ = ["PAGE"]

_PACKAGE = "vista_spark.explaining.pages"
_TITLE = "Explanations"
_ROUTER = APIRouter(include_in_schema=False)


@_ROUTER.get("/explanations")
async def _explanations(request: Request, principal: Annotated[Principal, Depends(viewer)]) -> Response:
    is_editor = principal.includes("editor")
    return render(request, f"{_PACKAGE}/explanations.html", title=_TITLE, is_editor=is_editor)


PAGE = Page("/explanations", _TITLE, _ROUTER, _PACKAGE)
"""Page of explanations, for :func:`udfs.web.create_app`."""
