"""Operations of users on many configurations at once: all commands are stored, or none."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select

from cerebro_spark.steering.server._records import command_record, store_command
from cerebro_spark.steering.server._tables import COMMANDS
from optimizer.errors import InvalidArgumentError
from optimizer.steering import (
    Effect,
    command_document,
    command_trial,
    conflict,
    document_digest,
    effects_of,
    read_command,
    read_filter,
    refusal,
)
from udfs.web import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row

    from cerebro_spark.steering.server._board import Board
    from optimizer.steering import Command, Progress

__all__ = ["accept_commands", "predict_effects"]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Commands that can be carried out, with the revisions that they are based on, and those that cannot."""

    commands: list[tuple[Command, int | None]]
    left_out: list[dict[str, str]]
    effect: Effect

    def document(self) -> dict[str, Any]:
        trials = [command_trial(command) for command, _ in self.commands]
        return {"effect": self.effect.document(), "trials": trials, "left_out": self.left_out}


def predict_effects(board: Board, run: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the effect of a command to many configurations; raise what :func:`accept_commands` would raise."""
    with board.reading() as connection:
        return _choose(board.progress(connection, board.row(connection, run)), body).document()


def accept_commands(board: Board, run: str, body: Mapping[str, Any], *, user: str, key: str | None) -> dict[str, Any]:
    """Store a command for each configuration that passes a filter, in one transaction.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    run : str
        Name of the run.
    body : mapping
        ``command`` with its fields, and ``where``, the document of a filter; for ``add`` the list ``configurations``
        of hyperparameters in its place.
    user : str
        Name of the user.
    key : str or None
        Key of the request: a second request of the user with it returns the commands of the first.

    Returns
    -------
    dict
        ``commands``, and ``left_out``: ids of configurations with the reasons why the command does not apply to them.

    Raises
    ------
    ApiError
        Status 404 for an unknown run, 409 if a configuration has changed since the revision in the filter, 422 for an
        invalid command or filter, or if no configuration is left.
    """
    with board.writing() as connection:
        row = board.row(connection, run)
        digest = document_digest(dict(body))
        if key is not None and (first := _of_key(connection, user, key)):
            if {(each.experiment, each.idempotency_key.rpartition("\n")[2]) for each in first} != {(row.id, digest)}:
                message = f"Idempotency-Key must be new for another command, got {key!r}. Use a new one."
                raise ApiError(422, "idempotency_key", message)
            return {"commands": [command_record(each._asdict()) for each in first], "left_out": []}
        chosen = _choose(board.progress(connection, row), body)
        if not chosen.commands:
            raise ApiError(
                422, "none", " ".join(("where must match a configuration, got none.", *_reasons(chosen)))[:1000]
            )
        records = []
        for number, (command, revision) in enumerate(chosen.commands):
            values = {"id": str(uuid.uuid4()), "experiment": row.id, "based_on": revision, "user": user}
            # A header has no line break, so the keys of one request differ from those of all others.
            named = {"idempotency_key": None if key is None else f"{key}\n{number}\n{digest}"}
            records.append(store_command(connection, {**values, **named, "document": command_document(command)}))
        return {"commands": records, "left_out": chosen.left_out}


def _choose(progress: Progress, body: Mapping[str, Any]) -> _Chosen:
    try:
        candidates = _candidates(progress, body)
    except InvalidArgumentError as error:
        raise ApiError(422, "invalid", str(error)) from error
    accepted: list[tuple[Command, int | None]] = []
    left_out = []
    for command, revision in candidates:
        if change := conflict(command, revision, progress):
            raise ApiError(409, "conflict", change)
        if reason := refusal(command, progress):
            left_out.append({"trial": command_trial(command) or "", "message": reason})
        else:
            accepted.append((command, revision))
    return _Chosen(accepted, left_out, effects_of([command for command, _ in accepted], progress))


def _candidates(progress: Progress, body: Mapping[str, Any]) -> list[tuple[Command, int | None]]:
    fields = {name: value for name, value in body.items() if name not in {"where", "configurations"}}
    if body.get("configurations") is not None:
        return [(read_command({**fields, "params": params}), None) for params in body["configurations"]]
    if body["command"] == "add":
        raise InvalidArgumentError("configurations must be a list of hyperparameters for add, got None.")
    chosen = read_filter(body.get("where") or {})
    revisions = chosen.trials or {}
    # The form of the command is checked also if no configuration passes.
    command_trial(read_command({**fields, "trial": "c000"}))
    return [
        (read_command({**fields, "trial": each.trial_id}), revisions.get(each.trial_id))
        for each in chosen.select(progress)
    ]


def _reasons(chosen: _Chosen) -> list[str]:
    return [each["message"] for each in chosen.left_out]


def _of_key(connection: Connection, user: str, key: str) -> list[Row[Any]]:
    named = or_(COMMANDS.c.idempotency_key == key, COMMANDS.c.idempotency_key.startswith(f"{key}\n", autoescape=True))
    rows = connection.execute(select(COMMANDS).where(COMMANDS.c.user == user, named).order_by(COMMANDS.c.number))
    return list(rows)
