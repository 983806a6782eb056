"""Application: middleware, sign-in, static files and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from starlette.middleware import Middleware
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations
from starlette.staticfiles import StaticFiles

from optimizer import __version__
from udfs.web._authentication import Authentication
from udfs.web._events import Changes
from udfs.web._middleware import BodyLimit, HostCheck, PathPrefix, SecurityHeaders
from udfs.web._rendering import render, template_environment
from udfs.web._replies import ErrorDocument, add_error_replies
from udfs.web._sign_in import sign_in_router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.web._accounts import Accounts
    from udfs.web._pages import Page
    from udfs.web._settings import WebSettings

__all__ = ["create_app"]


def create_app(settings: WebSettings, accounts: Accounts, pages: Sequence[Page] = ()) -> FastAPI:
    """Return the web application: sign-in, security, static files and pages.

    Every route requires a principal, also those that are added later. ``app.state.changes`` is the notifier for streams
    of events, ``app.state.accounts`` and ``app.state.settings`` are the arguments.

    Parameters
    ----------
    settings : WebSettings
        Settings.
    accounts : Accounts
        Users, programs and sessions.
    pages : sequence of Page, optional
        Pages, in the order of their links. Default: none.

    Returns
    -------
    fastapi.FastAPI
        Application; :func:`serve` runs it.

    Examples
    --------
    >>> from sqlalchemy import create_engine
    >>> from udfs.web import Accounts, WebSettings
    >>> app = create_app(WebSettings(), Accounts(create_engine("sqlite://")))
    >>> app.title
    'cerebro-spark'
    """
    app = FastAPI(
        title="cerebro-spark",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        # The pages of Swagger load scripts from another host.
        docs_url=None,
        redoc_url=None,
        # Redirects would contain the Host header, which is another one behind a proxy.
        redirect_slashes=False,
        responses={"4XX": {"model": ErrorDocument, "description": "The request was refused."}},
        middleware=[
            Middleware(PathPrefix, settings=settings),
            Middleware(SecurityHeaders),
            Middleware(HostCheck, settings=settings),
            Middleware(Authentication, settings=settings, accounts=accounts),
            Middleware(BodyLimit, settings=settings),
        ],
    )
    app.state.settings, app.state.accounts, app.state.changes = settings, accounts, Changes()
    app.state.pages, app.state.templates = tuple(pages), template_environment(pages)
    add_error_replies(app)
    app.include_router(sign_in_router(settings, accounts))
    for package in dict.fromkeys(["udfs.web", *(page.package for page in pages if page.package)]):
        app.mount(f"/static/{package}", _StaticFiles(packages=[(package, "static")]), name=package)
    for page in pages:
        app.include_router(page.router)
    if all(page.path != "/" for page in pages):
        app.add_api_route("/", _home, include_in_schema=False)
    return app


class _StaticFiles(StaticFiles):
    """Static files that browsers keep, and ask for again only if they have changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return a file, or the status 304."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _home(request: Request) -> Response:
    return render(request, "home.html")
