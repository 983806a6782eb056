"""Route of the page that finds suspicious rows of an experiment and collects corrected labels."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from udfs.web import Principal, render, viewer

__all__ = ["DATA_ROUTER"]

DATA_ROUTER = APIRouter(include_in_schema=False)


@DATA_ROUTER.get("/experiments/{run}/data")
async def _data(request: Request, run: str, principal: Annotated[Principal, Depends(viewer)]) -> Response:
    is_editor = principal.includes("editor")
    template = "cerebro_spark.steering.pages/data.html"
    return render(request, template, title=f"Data of {run}", run=run, is_editor=is_editor)
