"""Rows of requests: reading and writing within the transaction of a caller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from cerebro_spark.steering.server._tables import REQUESTS
from udfs.web import ApiError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

__all__ = ["OPEN", "change_request", "new_request", "request_record", "request_row"]

OPEN = ("pending", "running")
"""States of requests that are not settled."""

_NAMES = ("id", "number", "pool", "kind", "document", "user", "created", "state", "progress", "result", "message")


def request_row(connection: Connection, ident: str) -> Row[Any]:
    """Return the row of a request.

    Raises
    ------
    ApiError
        Status 404 for an unknown one.
    """
    row = connection.execute(select(REQUESTS).where(REQUESTS.c.id == ident)).first()
    if row is None:
        raise ApiError(404, "unknown_request", f"id must be a request of this server, got {ident[:200]!r}.")
    return row


def request_record(row: Row[Any]) -> dict[str, Any]:
    """Return a row as a document."""
    return {name: getattr(row, name) for name in (*_NAMES, "revision")}


def new_request(pool: str, kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a pending request."""
    return {
        "pool": pool,
        "kind": kind,
        "run": _run(document),
        "document": document,
        "created": time.time(),
        "state": "pending",
        "message": "",
        "revision": 0,
        "acknowledged": False,
    }


def change_request(connection: Connection, row: Row[Any], values: dict[str, Any]) -> None:
    """Change a request, which increases its revision."""
    if values.get("state", "running") not in OPEN:
        values = {**values, "settled": time.time()}
    connection.execute(update(REQUESTS).where(REQUESTS.c.id == row.id).values(revision=row.revision + 1, **values))


def _run(document: Mapping[str, Any]) -> str:
    """Return the run that a request is about: that of a launch, or of the model to explain or debug."""
    for place in (document, document.get("network")):
        if isinstance(place, Mapping) and isinstance(place.get("run"), str):
            return str(place["run"])
    return ""
