"""HTML responses from templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from starlette.responses import HTMLResponse

from optimizer import __version__
from udfs.web._cookies import csrf_token
from udfs.web._principals import principal_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import Request

    from udfs.web._pages import Page

__all__ = ["render", "template_environment"]


def template_environment(pages: Iterable[Page]) -> Environment:
    """Return the templates of the shell and of pages; every value that they insert is escaped."""
    packages = {page.package: PackageLoader(page.package) for page in pages if page.package}
    loader = ChoiceLoader([PackageLoader("udfs.web"), PrefixLoader(packages)])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page from a template.

    Templates extend ``layout.html``, whose blocks are ``head`` and ``content``. They see ``root`` (the path prefix,
    which links start with), ``csrf``, ``principal``, ``pages``, ``version``, ``title`` and the names in ``context``.

    Parameters
    ----------
    request : fastapi.Request
        Request that the page answers.
    template : str
        Name of the template: ``"<package>/<file>"`` for one of a page.
    status : int, optional
        HTTP status. Default 200.
    **context
        Further names for the template.

    Examples
    --------
    >>> from fastapi import APIRouter, Request
    >>> router = APIRouter()
    >>> @router.get("/about")
    ... def about(request: Request):
    ...     return render(request, "example.pages/about.html", title="About")
    """
    session = request.state.session
    names = {
        "root": request.scope.get("root_path", ""),
        "csrf": csrf_token(session) if session else "",
        "principal": principal_of(request),
        "pages": request.app.state.pages,
        "version": __version__,
        "title": "cerebro-spark",
        "message": "",
    }
    text = request.app.state.templates.get_template(template).render(names | context)
    return HTMLResponse(text, status)
