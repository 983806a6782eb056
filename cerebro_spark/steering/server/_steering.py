"""Operations of users: commands and their effects."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from cerebro_spark.steering.server._records import command_record, settle_command, store_command
from cerebro_spark.steering.server._tables import COMMANDS
from optimizer.errors import InvalidArgumentError
from optimizer.steering import command_document, conflict, effect, read_command, refusal
from udfs.web import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row

    from cerebro_spark.steering.server._board import Board
    from optimizer.steering import Command, Progress

__all__ = ["accept_command", "predict_effect", "withdraw_command"]


def accept_command(
    board: Board, run: str, document: Mapping[str, Any], *, revision: int | None, user: str, key: str | None
) -> dict[str, Any]:
    """Validate a command and store it for the runner; it is on disk when this function returns.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    run : str
        Name of the run.
    document : mapping
        Document of the command.
    revision : int or None
        Revision of the configuration that the command was based on; None to skip the check of conflicts.
    user : str
        Name of the user.
    key : str or None
        Key of the request: a second request of the user with it returns the command of the first.

    Returns
    -------
    dict
        Record of the command.

    Raises
    ------
    ApiError
        Status 404 for an unknown run, 409 for a conflict, 422 for a command that cannot be carried out.
    """
    command = _read(document)
    written = command_document(command)
    with board.writing() as connection:
        row = board.row(connection, run)
        if key is not None and (first := _of_key(connection, user, key)):
            if (first.experiment, first.document, first.based_on) != (row.id, written, revision):
                message = f"Idempotency-Key must be new for another command, got {key!r}. Use a new one."
                raise ApiError(422, "idempotency_key", message)
            return command_record(first._asdict())
        _check(command, revision, board.progress(connection, row))
        values = {"id": str(uuid.uuid4()), "experiment": row.id, "document": written, "based_on": revision}
        return store_command(connection, {**values, "user": user, "idempotency_key": key})


def predict_effect(board: Board, run: str, document: Mapping[str, Any], *, revision: int | None) -> dict[str, Any]:
    """Return the effect of a command; raise what :func:`accept_command` would raise."""
    command = _read(document)
    with board.reading() as connection:
        progress = board.progress(connection, board.row(connection, run))
        _check(command, revision, progress)
        return effect(command, progress).document()


def withdraw_command(board: Board, ident: str, user: str) -> dict[str, Any]:
    """Withdraw a pending command.

    Raises
    ------
    ApiError
        Status 404 for an unknown command, 409 if it has its outcome already.
    """
    with board.writing() as connection:
        row = connection.execute(select(COMMANDS).where(COMMANDS.c.id == ident)).first()
        if row is None:
            raise ApiError(404, "unknown_command", f"id must be a command of this server, got {ident[:200]!r}.")
        if row.state == "withdrawn":
            return command_record(row._asdict())
        if row.state != "pending":
            message = f"command must be pending, got one that was {row.state}. Send a command that reverts it."
            raise ApiError(409, "settled", message)
        return settle_command(connection, row, "withdrawn", {"message": f"withdrawn by {user}", "trial": ""})


def _read(document: Mapping[str, Any]) -> Command:
    try:
        return read_command(document)
    except InvalidArgumentError as error:
        raise ApiError(422, "invalid", str(error)) from error


def _of_key(connection: Connection, user: str, key: str) -> Row[Any] | None:
    return connection.execute(
        select(COMMANDS).where(COMMANDS.c.user == user, COMMANDS.c.idempotency_key == key)
    ).first()


def _check(command: Command, revision: int | None, progress: Progress) -> None:
    if change := conflict(command, revision, progress):
        raise ApiError(409, "conflict", change)
    if reason := refusal(command, progress):
        raise ApiError(422, "refused", reason)
