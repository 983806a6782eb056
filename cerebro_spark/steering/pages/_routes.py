"""Routes of the pages, which read everything else from the REST API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from udfs.web import Page, Principal, render, viewer

__all__ = ["PAGE"]

_PACKAGE = "cerebro_spark.steering.pages"
_TITLE = "Experiments"
_ROUTER = APIRouter(include_in_schema=False)


@_ROUTER.get("/")
async def _experiments(request: Request, _: Annotated[Principal, Depends(viewer)]) -> Response:
    return render(request, f"{_PACKAGE}/experiments.html", title=_TITLE)


@_ROUTER.get("/experiments/{run}")
async def _experiment(request: Request, run: str, principal: Annotated[Principal, Depends(viewer)]) -> Response:
    is_editor = principal.includes("editor")
    return render(request, f"{_PACKAGE}/experiment.html", title=run, run=run, is_editor=is_editor)


PAGE = Page("/", _TITLE, _ROUTER, _PACKAGE)
"""List of experiments, and a page for each of them, for :func:`udfs.web.create_app`."""
