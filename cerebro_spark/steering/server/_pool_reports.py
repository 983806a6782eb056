"""Operations of pools: registration, requests to answer, and their outcomes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from cerebro_spark.steering.server._request_records import OPEN, change_request, request_record, request_row
from cerebro_spark.steering.server._tables import POOLS, REQUESTS
from optimizer.errors import InvalidArgumentError
from optimizer.steering import is_plain_json
from udfs.names import check_name
from udfs.web import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from cerebro_spark.steering.server._board import Board

__all__ = ["register_pool", "remove_pool", "report_request", "requests_of_pool", "see_pool"]

# Requests with a lasting effect, which a repetition does not double: a launch names its run.
_REPEATABLE = ("launch",)
_MOST_AT_ONCE = 50


def register_pool(board: Board, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Create a pool, or attach a runner to it again.

    A runner with another ``session`` replaces the earlier one, whose process is over: it gets the launches that were
    not finished again, and other requests that were running fail.

    Raises
    ------
    ApiError
        Status 422 for an invalid name.
    """
    try:
        check_name(name, "a pool")
    except InvalidArgumentError as error:
        raise ApiError(422, "invalid", str(error)) from error
    session = settings["session"]
    values = {"settings": {key: settings[key] for key in settings if key != "session"}, "session": session}
    with board.writing() as connection:
        row = connection.execute(select(POOLS).where(POOLS.c.name == name)).first()
        if row is None:
            connection.execute(insert(POOLS).values(name=name, created=time.time(), **values))
        else:
            connection.execute(update(POOLS).where(POOLS.c.name == name).values(values))
            if row.session != session:
                _restart(connection, name)
        board.see_runner(name)
    return {"name": name}


def _restart(connection: Connection, pool: str) -> None:
    mine = REQUESTS.c.pool == pool
    connection.execute(update(REQUESTS).where(mine, REQUESTS.c.state == "cancelled").values(acknowledged=True))
    for row in connection.execute(select(REQUESTS).where(mine, REQUESTS.c.state == "running")).all():
        if row.kind in _REPEATABLE:
            change_request(connection, row, {"state": "pending", "progress": None})
        else:
            change_request(connection, row, {"state": "failed", "message": "the runner restarted"})


def remove_pool(board: Board, name: str, session: str) -> dict[str, Any]:
    """Record that a pool has closed; its requests stay until it is started again."""
    with board.writing() as connection:
        _check_session(connection, name, session)
        # A poll that is still on its way does not make the pool live again.
        connection.execute(update(POOLS).where(POOLS.c.name == name).values(session=f"closed {session}"))
        board.forget_runner(name)
    return {"name": name}


def see_pool(board: Board, name: str, session: str) -> None:
    """Record that the runner of a pool is connected.

    Raises
    ------
    ApiError
        Status 404 for an unknown pool, 409 if another runner has replaced this one.
    """
    with board.reading() as connection:
        _check_session(connection, name, session)
        board.see_runner(name)


def requests_of_pool(board: Board, name: str, session: str, after: int) -> dict[str, Any]:
    """Return the pending requests of a pool with larger numbers, and the ids of cancelled ones.

    Cancelled requests are listed until the pool has acknowledged them by a report.

    Raises
    ------
    ApiError
        Status 404 for an unknown pool, 409 if another runner has replaced this one.
    """
    mine = REQUESTS.c.pool == name
    pending = select(REQUESTS).where(mine, REQUESTS.c.state == "pending", REQUESTS.c.number > after)
    cancelled = select(REQUESTS.c.id).where(mine, REQUESTS.c.state == "cancelled", ~REQUESTS.c.acknowledged)
    with board.reading() as connection:
        _check_session(connection, name, session)
        rows = connection.execute(pending.order_by(REQUESTS.c.number).limit(_MOST_AT_ONCE)).all()
        return {
            "requests": [request_record(row) for row in rows],
            "cancelled": list(connection.execute(cancelled).scalars()),
        }


def report_request(board: Board, ident: str, session: str, report: Mapping[str, Any]) -> dict[str, bool]:
    """Change the state of a request; a repeated report changes nothing.

    A cancelled request stays cancelled. Only a launch that was carried out meanwhile becomes done, because its run
    trains.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    ident : str
        Id of the request.
    session : str
        Process of the runner.
    report : mapping
        ``state``, ``progress``, ``result`` and ``message``.

    Returns
    -------
    dict
        ``cancelled``: True if the user has cancelled the request.

    Raises
    ------
    ApiError
        Status 404 for an unknown request, 409 if another runner has replaced this one or the request is settled, 422
        for data that no browser reads.
    """
    state = report["state"]
    values = {name: report[name] for name in ("progress", "result", "message") if report[name] is not None}
    if not is_plain_json(values):
        raise ApiError(422, "invalid", "progress and result must be JSON with finite numbers.")
    with board.writing() as connection:
        row = request_row(connection, ident)
        _check_session(connection, row.pool, session)
        board.see_runner(row.pool)
        is_carried_out = state == "done" and row.kind in _REPEATABLE
        if row.state == "cancelled" and not is_carried_out:
            connection.execute(update(REQUESTS).where(REQUESTS.c.id == ident).values(acknowledged=True))
            return {"cancelled": True}
        if row.state in OPEN or row.state == "cancelled":
            change_request(connection, row, {**values, "state": state})
        elif row.state != state:
            raise ApiError(409, "settled", f"request must be pending or running, got one that is {row.state}.")
        return {"cancelled": False}


def _check_session(connection: Connection, name: str, session: str) -> None:
    row = connection.execute(select(POOLS.c.session).where(POOLS.c.name == name)).first()
    if row is None:
        raise ApiError(404, "unknown_pool", f"name must be a registered pool, got {name[:200]!r}. Register it.")
    if row.session != session:
        raise ApiError(409, "replaced", f"pool {name!r} must have one runner, and another one has replaced this one.")
