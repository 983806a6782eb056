"""Application of the server: the web shell, the REST API and the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cerebro_spark.steering.pages import PAGE
from cerebro_spark.steering.server._analysis import analysis_router
from cerebro_spark.steering.server._blobs import Blobs
from cerebro_spark.steering.server._board import Board
from cerebro_spark.steering.server._correction_routes import correction_router
from cerebro_spark.steering.server._pool_routes import pool_router
from cerebro_spark.steering.server._request_routes import request_router, request_view_router
from cerebro_spark.steering.server._routes import command_router, view_router
from cerebro_spark.steering.server._runner_routes import runner_router
from udfs.web import Accounts, create_app, installed_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from sqlalchemy import Engine

    from udfs.web import Page, WebSettings

__all__ = ["create_server"]


def create_server(settings: WebSettings, engine: Engine, pages: Sequence[Page] | None = None) -> FastAPI:
    """Return the application that steers searches.

    Parameters
    ----------
    settings : udfs.web.WebSettings
        Settings of the web server.
    engine : sqlalchemy.Engine
        Engine of :func:`open_database`.
    pages : sequence of udfs.web.Page, optional
        Pages. Default: that of experiments, and those of the installed packages.

    Returns
    -------
    fastapi.FastAPI
        Application for :func:`udfs.web.serve`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cerebro_spark.steering.server import open_database
    >>> from udfs.web import WebSettings
    >>> engine = open_database(Path(tempfile.mkdtemp()) / "server.sqlite")
    >>> app = create_server(WebSettings(), engine, pages=[])
    >>> "/api/v1/experiments/{run}/commands" in app.openapi()["paths"]
    True
    """
    if pages is None:
        # The entry point of an older installation may lack the page of this package.
        pages = [PAGE, *(page for page in installed_pages() if page != PAGE)]
    app = create_app(settings, Accounts(engine), pages)
    board, blobs = Board(engine, app.state.changes), Blobs(engine)
    app.include_router(view_router(board, app.state.changes))
    app.include_router(analysis_router(board))
    app.include_router(command_router(board))
    app.include_router(correction_router(board))
    app.include_router(runner_router(board, app.state.changes))
    app.include_router(request_view_router(board, app.state.changes))
    app.include_router(request_router(board, blobs))
    app.include_router(pool_router(board, app.state.changes, blobs))
    return app
