"""Operations of runners: registration, events and the outcome of commands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from cerebro_spark.steering.server._records import (
    append_events,
    append_state,
    command_record,
    delete_stream,
    experiment_row,
    next_numbers,
    settle_command,
)
from cerebro_spark.steering.server._tables import COMMANDS, EVENTS, EXPERIMENTS
from optimizer.errors import InvalidArgumentError
from optimizer.steering import check_event, document_digest, origins
from udfs.names import check_name
from udfs.web import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

    from cerebro_spark.steering.server._board import Board

__all__ = [
    "end_experiment",
    "pending_commands",
    "register",
    "replace_orders",
    "report_events",
    "report_outcome",
    "store_events",
]

_OVER = "The search was over before the command arrived."


def register(board: Board, run: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Create a run, or attach a runner to it again.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    run : str
        Name of the run.
    settings : mapping
        Settings with ``store`` and ``name``. ``session`` names the process of the runner: another one ends pauses and
        priorities. ``fingerprint`` is the digest of the first order in the journal, ``""`` if unknown: another one
        means that the journal began anew, and its orders replace the former ones.

    Returns
    -------
    dict
        ``next``: the number of the next document by stream.

    Raises
    ------
    ApiError
        Status 409 for a run of another store, 422 for an invalid name.
    """
    try:
        check_name(run, "a run")
    except InvalidArgumentError as error:
        raise ApiError(422, "invalid", str(error)) from error
    values = {name: settings[name] for name in ("store", "name", "session")}
    others = settings.keys() - values.keys() - {"fingerprint"}
    values |= {"settings": {name: settings[name] for name in sorted(others)}}
    now = time.time()
    with board.writing() as connection:
        row = experiment_row(connection, run)
        if row is None:
            connection.execute(insert(EXPERIMENTS).values(run=run, created=now, runner_seen=now, **values))
            row = board.row(connection, run)
            append_state(connection, row.id, "experiment", {"state": "attached"})
        else:
            _attach(connection, row, values | {"ended": None, "runner_seen": now})
            replace_orders(connection, row.id, settings["fingerprint"])
        board.see_runner(row.id)
        return {"next": next_numbers(connection, row.id)}


def _attach(connection: Connection, row: Row[Any], values: dict[str, Any]) -> None:
    if values["store"] != row.store:
        raise ApiError(
            409,
            "store",
            f"store of {row.run} must be {row.store!r}, got {values['store']!r}. Give one of the runs another run_id.",
        )
    if row.ended is not None or values["session"] != row.session:
        append_state(connection, row.id, "experiment", {"state": "attached"})
    connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.id == row.id).values(values))


def replace_orders(connection: Connection, experiment: int, fingerprint: str) -> None:
    """Delete the orders of a run if the journal began anew, which the digest of its first order shows."""
    stored = connection.execute(
        select(EVENTS.c.document).where(
            EVENTS.c.experiment == experiment, EVENTS.c.stream == "orders", EVENTS.c.number == 0
        )
    ).first()
    if stored is not None and fingerprint and fingerprint != document_digest(stored.document):
        delete_stream(connection, experiment, "orders")
        append_state(connection, experiment, "experiment", {"state": "restarted"})


def report_events(board: Board, run: str, stream: str, documents: Sequence[tuple[int, Any]]) -> dict[str, Any]:
    """Insert documents of a run's journal, each of them once.

    Commands that an order carried out become applied in the same transaction.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    run : str
        Name of the run.
    stream : {"orders", "units", "trials"}
        Stream of the documents.
    documents : sequence of (int, object)
        Numbers and documents, ascending. The server may have some of them already.

    Returns
    -------
    dict
        ``next``: the number of the next document by stream.

    Raises
    ------
    ApiError
        Status 404 for an unknown run, 409 for a gap or for a number that had another document, 422 for an invalid one.
    """
    with board.writing() as connection:
        row = board.row(connection, run)
        store_events(connection, row, stream, documents)
        connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.id == row.id).values(runner_seen=time.time()))
        board.see_runner(row.id)
        return {"next": next_numbers(connection, row.id)}


def store_events(connection: Connection, row: Row[Any], stream: str, documents: Sequence[tuple[int, Any]]) -> None:
    """Insert documents of the run of a row; raise as :func:`report_events`."""
    try:
        for _, document in documents:
            check_event(stream, document)
    except InvalidArgumentError as error:
        raise ApiError(422, "invalid", str(error)) from error
    if stream != "trials":
        _check_numbers(connection, row, stream, documents)
    for _, document in append_events(connection, row.id, stream, documents):
        if stream == "orders":
            _apply_commands(connection, row.id, document)


def _check_numbers(connection: Connection, row: Row[Any], stream: str, documents: Sequence[tuple[int, Any]]) -> None:
    due = next_numbers(connection, row.id)[stream]
    numbers = [number for number, _ in documents]
    if numbers and (numbers[0] > due or numbers != list(range(numbers[0], numbers[0] + len(numbers)))):
        raise ApiError(
            409,
            "gap",
            f"numbers of {stream} must ascend by 1 from at most {due}, got {str(numbers)[:100]}. Send the missing "
            "documents first.",
        )
    earlier = {number: document for number, document in documents if number < due}
    stored = connection.execute(
        select(EVENTS.c.number, EVENTS.c.document).where(
            EVENTS.c.experiment == row.id,
            EVENTS.c.stream == stream,
            EVENTS.c.number.in_(earlier),
        )
    )
    for each in stored:
        if document_digest(earlier[each.number]) != document_digest(each.document):
            raise ApiError(
                409,
                "journal",
                f"document {each.number} of {stream} must be the one that the server has, got another. Register the "
                "run with the digest of its first order if its journal began anew.",
            )


def _apply_commands(connection: Connection, experiment: int, order: Mapping[str, Any]) -> None:
    for origin in origins(order):
        row = _command(connection, experiment, origin.command) if origin.command else None
        # The journal is the truth, even if a withdrawal was accepted while the runner carried the command out.
        if row is not None and row.state in {"pending", "withdrawn"}:
            settle_command(connection, row, "applied", {"message": "", "trial": origin.trial_id})


def _command(connection: Connection, experiment: int, ident: str) -> Row[Any] | None:
    return connection.execute(
        select(COMMANDS).where(COMMANDS.c.experiment == experiment, COMMANDS.c.id == ident)
    ).first()


def pending_commands(board: Board, run: str) -> list[dict[str, Any]]:
    """Return the pending commands of a run in the order in which they were accepted."""
    with board.reading() as connection:
        row = board.row(connection, run)
        board.see_runner(row.id)
        return [command_record(each._asdict()) for each in _pending(connection, row.id)]


def _pending(connection: Connection, experiment: int) -> list[Row[Any]]:
    pending = select(COMMANDS).where(COMMANDS.c.experiment == experiment, COMMANDS.c.state == "pending")
    return list(connection.execute(pending.order_by(COMMANDS.c.number)))


def report_outcome(board: Board, run: str, ident: str, state: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Settle a command, once: a repeated report changes nothing.

    Raises
    ------
    ApiError
        Status 404 for an unknown run or command, 409 if the command has another outcome.
    """
    with board.writing() as connection:
        row = _command(connection, board.row(connection, run).id, ident)
        if row is None:
            raise ApiError(404, "unknown_command", f"id must be a command of {run}, got {ident[:200]!r}.")
        if row.state == state:
            return command_record(row._asdict())
        if row.state != "pending" and (row.state, state) != ("withdrawn", "applied"):
            message = f"state of command {ident} must be pending, got {row.state}. It has its outcome already."
            raise ApiError(409, "settled", message)
        return settle_command(connection, row, state, result)


def end_experiment(board: Board, run: str, error: str) -> dict[str, Any]:
    """End a run; its pending commands are refused unless an error ended it, after which it can be resumed."""
    with board.writing() as connection:
        row = board.row(connection, run)
        if row.ended is None:
            append_state(connection, row.id, "experiment", {"state": "ended", "error": error})
            connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.id == row.id).values(ended=time.time()))
            if not error:
                for each in _pending(connection, row.id):
                    settle_command(connection, each, "refused", {"message": _OVER, "trial": ""})
        return {"run": run, "error": error}
