"""Operations of users: requests to pools, and the pools that answer them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select

from cerebro_spark.steering.server._records import experiment_row
from cerebro_spark.steering.server._request_records import (
    OPEN,
    change_request,
    new_request,
    request_record,
    request_row,
)
from cerebro_spark.steering.server._tables import POOLS, REQUESTS
from optimizer.errors import nearest
from udfs.web import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row

    from cerebro_spark.steering.server._board import Board

__all__ = ["accept_request", "cancel_request", "get_request", "list_pools", "list_requests"]

# Requests of a pool that wait or run, at most.
_MOST_OPEN = 200
_MOST_LISTED = 500


def list_pools(board: Board) -> list[dict[str, Any]]:
    """Return all pools by name, with whether their runner is connected."""
    with board.reading() as connection:
        return [_pool(board, row) for row in connection.execute(select(POOLS).order_by(POOLS.c.name))]


def _pool(board: Board, row: Row[Any]) -> dict[str, Any]:
    return {"name": row.name, **row.settings, "is_live": board.has_runner(row.name)}


def list_requests(board: Board, kind: str = "", pool: str = "", run: str = "") -> list[dict[str, Any]]:
    """Return the latest requests in their order, without progress and results, which may be large."""
    chosen = select(REQUESTS).order_by(REQUESTS.c.number.desc()).limit(_MOST_LISTED)
    for column, value in ((REQUESTS.c.kind, kind), (REQUESTS.c.pool, pool), (REQUESTS.c.run, run)):
        chosen = chosen.where(column == value) if value else chosen
    with board.reading() as connection:
        rows = connection.execute(chosen).all()
    return [request_record(row) | {"progress": None, "result": None} for row in reversed(rows)]


def get_request(board: Board, ident: str) -> dict[str, Any]:
    """Return a request.

    Raises
    ------
    ApiError
        Status 404 for an unknown one.
    """
    with board.reading() as connection:
        return request_record(request_row(connection, ident))


def accept_request(board: Board, body: Mapping[str, Any], *, user: str, key: str | None) -> dict[str, Any]:
    """Store a request for a pool; it is on disk when this function returns.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    body : mapping
        ``kind``, ``document``, ``pool`` (None for the only live one that offers the kind) and ``replaces``, the id of a
        request to cancel, or None.
    user : str
        Name of the user.
    key : str or None
        Key of the HTTP request: a second one of the user with it returns the request of the first.

    Returns
    -------
    dict
        Record of the request.

    Raises
    ------
    ApiError
        Status 404 for an unknown pool or replaced request, 409 if no pool is live or offers the kind, 422 if several
        do, 429 if the pool has too many open requests.
    """
    kind, document = body["kind"], body["document"]
    with board.writing() as connection:
        if key is not None and (first := _of_key(connection, user, key)):
            if (first.kind, first.document, body["pool"] or first.pool) != (kind, document, first.pool):
                message = f"Idempotency-Key must be new for another request, got {key!r}. Use a new one."
                raise ApiError(422, "idempotency_key", message)
            return request_record(first)
        pool = _chosen_pool(board, connection, body["pool"], kind)
        if kind == "launch":
            _check_new_run(connection, document.get("run"))
        if body["replaces"] is not None:
            _cancel(connection, request_row(connection, body["replaces"]), user)
        _check_room(connection, pool)
        ident = str(uuid.uuid4())
        values = new_request(pool, kind, document) | {"id": ident, "user": user, "idempotency_key": key}
        connection.execute(insert(REQUESTS).values(values))
        return request_record(request_row(connection, ident))


def cancel_request(board: Board, ident: str, user: str) -> dict[str, Any]:
    """Cancel a request that waits or runs; one that is finished stays as it is.

    Raises
    ------
    ApiError
        Status 404 for an unknown request, 409 if it is done or has failed.
    """
    with board.writing() as connection:
        row = request_row(connection, ident)
        if row.state in {"done", "failed"}:
            raise ApiError(409, "settled", f"request must be pending or running, got one that is {row.state}.")
        _cancel(connection, row, user)
        return request_record(request_row(connection, ident))


def _cancel(connection: Connection, row: Row[Any], user: str) -> None:
    if row.state in OPEN:
        change_request(connection, row, {"state": "cancelled", "message": f"cancelled by {user}"})


def _of_key(connection: Connection, user: str, key: str) -> Row[Any] | None:
    return connection.execute(
        select(REQUESTS).where(REQUESTS.c.user == user, REQUESTS.c.idempotency_key == key)
    ).first()


def _chosen_pool(board: Board, connection: Connection, name: str | None, kind: str) -> str:
    rows = connection.execute(select(POOLS).order_by(POOLS.c.name)).all()
    if name is not None and all(row.name != name for row in rows):
        hint = nearest(name, [row.name for row in rows]) or "."
        raise ApiError(404, "unknown_pool", f"pool must be a pool of this server, got {name[:200]!r}{hint}")
    live = [row for row in rows if name in {None, row.name} and board.has_runner(row.name)]
    if not live:
        subject = "a pool of workers" if name is None else f"pool {name!r}"
        raise ApiError(
            409,
            "no_pool",
            f"{subject} must be connected for requests. Start cerebro runner, or cerebro serve --master, and wait "
            "until it says that its pool answers.",
        )
    offering = [row for row in live if kind in row.settings["kinds"]]
    if not offering:
        kinds = sorted({each for row in live for each in row.settings["kinds"]})
        raise ApiError(409, "kind", f"kind must be one of {', '.join(kinds)}, got {kind[:100]!r}.")
    if len(offering) > 1:
        names = ", ".join(row.name for row in offering)
        raise ApiError(422, "pool", f"pool must name one of the live pools ({names}), got none.")
    return str(offering[0].name)


def _check_new_run(connection: Connection, run: object) -> None:
    # The pool looks at its store too. The server also has runs of other stores.
    if isinstance(run, str) and experiment_row(connection, run) is not None:
        raise ApiError(
            422, "run", f"run must be a new name, got {run[:200]!r}, which has an experiment. Choose another."
        )


def _check_room(connection: Connection, pool: str) -> None:
    waiting = select(func.count()).where(REQUESTS.c.pool == pool, REQUESTS.c.state.in_(OPEN))
    if (connection.execute(waiting).scalar() or 0) >= _MOST_OPEN:
        message = f"pool {pool!r} must have fewer than {_MOST_OPEN} open requests. Cancel some, or wait."
        raise ApiError(429, "busy", message, {"Retry-After": "5"})
