"""Principals of requests, and the dependencies of routes that require a role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations

from udfs.web._errors import ApiError

__all__ = ["ROLES", "Principal", "Role", "editor", "principal_of", "runner", "viewer"]

Role: TypeAlias = Literal["viewer", "editor", "runner", "owner"]
"""A viewer reads, an editor also sends commands, a runner reads and reports, an owner may do all of it."""

ROLES: dict[str, frozenset[str]] = {
    "viewer": frozenset({"viewer"}),
    "editor": frozenset({"viewer", "editor"}),
    "runner": frozenset({"viewer", "runner"}),
    "owner": frozenset({"viewer", "editor", "runner"}),
}
"""Roles that each role includes."""


@dataclass(frozen=True)
class Principal:
    """User or program that sent a request.

    Parameters
    ----------
    name : str
        Name of the user or program.
    role : {"viewer", "editor", "runner", "owner"}
        Role.

    Examples
    --------
    >>> Principal("ada", "editor").includes("viewer")
    True
    """

    name: str
    role: Role

    def includes(self, role: str) -> bool:
        """Return True if a route for a role may answer the principal.

        Examples
        --------
        >>> Principal("ada", "viewer").includes("editor")
        False
        """
        return role in ROLES[self.role]


def principal_of(request: Request) -> Principal | None:
    """Return the principal of a request, or ``None`` for a public page without a session.

    Examples
    --------
    >>> from starlette.requests import Request
    >>> principal_of(Request({"type": "http", "headers": []})) is None
    True
    """
    return cast("Principal | None", getattr(request.state, "principal", None))


def viewer(request: Request) -> Principal:
    """Return the principal of a request that reads: a FastAPI dependency.

    Raises
    ------
    ApiError
        Status 401 without a principal.

    Examples
    --------
    >>> from fastapi import APIRouter, Depends
    >>> router = APIRouter(dependencies=[Depends(viewer)])
    """
    return _require(request, "viewer")


def editor(request: Request) -> Principal:
    """Return the principal of a request that changes an experiment: a FastAPI dependency.

    Raises
    ------
    ApiError
        Status 401 without a principal, 403 for a viewer or a runner.

    Examples
    --------
    >>> from fastapi import APIRouter, Depends
    >>> router = APIRouter(dependencies=[Depends(editor)])
    """
    return _require(request, "editor")


def runner(request: Request) -> Principal:
    """Return the principal of a request of a runner: a FastAPI dependency.

    Raises
    ------
    ApiError
        Status 401 without a principal, 403 for a viewer or an editor.

    Examples
    --------
    >>> from fastapi import APIRouter, Depends
    >>> router = APIRouter(dependencies=[Depends(runner)])
    """
    return _require(request, "runner")


def _require(request: Request, role: str) -> Principal:
    principal = principal_of(request)
    if principal is None:
        raise ApiError(401, "signed_out", "The request must have a session or an access token. Sign in.")
    if not principal.includes(role):
        raise ApiError(
            403,
            "forbidden",
            f"role must include {role!r}, got {principal.role!r} of {principal.name!r}. Ask an editor.",
        )
    return principal
