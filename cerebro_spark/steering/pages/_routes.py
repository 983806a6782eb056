"""Routes of the pages, which read everything else from the REST API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from cerebro_spark.steering.pages._data_routes import DATA_ROUTER
from udfs.web import Page, Principal, editor, render, viewer

__all__ = ["PAGE"]

_PACKAGE = "cerebro_spark.steering.pages"
_TITLE = "Experiments"
_ROUTER = APIRouter(include_in_schema=False)
_ROUTER.include_router(DATA_ROUTER)
_Viewer = Annotated[Principal, Depends(viewer)]
_Editor = Annotated[Principal, Depends(editor)]


@_ROUTER.get("/")
async def _experiments(request: Request, principal: _Viewer) -> Response:
    return render(request, f"{_PACKAGE}/experiments.html", title=_TITLE, is_editor=principal.includes("editor"))


@_ROUTER.get("/launch")
async def _launch(request: Request, _: _Editor) -> Response:
    return render(request, f"{_PACKAGE}/launch.html", title="New experiment", run="")


@_ROUTER.get("/compare")
async def _compare(request: Request, _: _Viewer, runs: str = "") -> Response:
    return render(request, f"{_PACKAGE}/compare.html", title="Comparison", runs=runs)


@_ROUTER.get("/experiments/{run}")
async def _experiment(request: Request, run: str, principal: _Viewer) -> Response:
    is_editor = principal.includes("editor")
    return render(request, f"{_PACKAGE}/experiment.html", title=run, run=run, is_editor=is_editor)


@_ROUTER.get("/experiments/{run}/drill-down")
async def _drill_down(request: Request, run: str, _: _Editor) -> Response:
    return render(request, f"{_PACKAGE}/launch.html", title=f"Drill-down of {run}", run=run)


PAGE = Page("/", _TITLE, _ROUTER, _PACKAGE)
"""List of experiments, and a page for each of them, for :func:`udfs.web.create_app`."""
