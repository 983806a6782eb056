"""Pages that packages add to the web application."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points

from fastapi import APIRouter  # noqa: TC002 - a field of a dataclass

from optimizer.errors import InvalidArgumentError

__all__ = ["PAGES", "Page", "installed_pages"]

PAGES = "cerebro_spark.pages"
"""Entry point group of pages."""


@dataclass(frozen=True)
class Page:
    """Page of the web application, with a link in its header.

    Parameters
    ----------
    path : str
        Path of the page, such as ``"/"`` or ``"/explanations"``.
    title : str
        Text of the link.
    router : fastapi.APIRouter
        Routes of the page.
    package : str, optional
        Package whose folder ``templates`` has the templates, named ``<package>/<file>``, and whose folder ``static``
        is served at ``static/<package>/``. Default: neither.

    Examples
    --------
    >>> from fastapi import APIRouter
    >>> Page("/", "Experiments", APIRouter(), "cerebro_spark.steering.pages").title
    'Experiments'
    """

    path: str
    title: str
    router: APIRouter
    package: str = ""

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise InvalidArgumentError(f"path must start with '/', got {self.path!r}.")


def installed_pages() -> list[Page]:
    """Return the pages of the installed packages: the objects of the entry points ``cerebro_spark.pages``.

    Examples
    --------
    >>> all(isinstance(page, Page) for page in installed_pages())
    True
    """
    pages = [point.load() for point in sorted(entry_points(group=PAGES))]
    for page in pages:
        if not isinstance(page, Page):
            raise InvalidArgumentError(f"entry points of {PAGES} must be pages, got {page!r}.")
    return pages
