"""Rows of the database: reading and writing within the transaction of a caller."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as insert_or_ignore

from cerebro_spark.steering.server._tables import COMMANDS, EVENTS, EXPERIMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

__all__ = [
    "append_events",
    "append_state",
    "command_record",
    "delete_stream",
    "experiment_row",
    "next_numbers",
    "settle_command",
    "store_command",
]

_REPORTED = ("orders", "units")


def experiment_row(connection: Connection, run: str) -> Row[Any] | None:
    """Return the row of a run, or None."""
    return connection.execute(select(EXPERIMENTS).where(EXPERIMENTS.c.run == run)).first()


def next_numbers(connection: Connection, experiment: int) -> dict[str, int]:
    """Return the number of the next document of each stream that a runner reports."""
    rows = connection.execute(
        select(EVENTS.c.stream, func.max(EVENTS.c.number))
        .where(EVENTS.c.experiment == experiment, EVENTS.c.stream.in_(_REPORTED))
        .group_by(EVENTS.c.stream)
    )
    last = {stream: number for stream, number in rows}  # noqa: C416 - rows are no pairs for mypy
    return {stream: last.get(stream, -1) + 1 for stream in _REPORTED}


def append_events(
    connection: Connection, experiment: int, stream: str, documents: Sequence[tuple[int, Any]]
) -> list[tuple[int, Any]]:
    """Insert numbered documents, and return those that the database did not have yet."""
    received = time.time()
    fresh = []
    for number, document in documents:
        values = {"experiment": experiment, "stream": stream, "number": number, "document": document}
        inserted = connection.execute(
            insert_or_ignore(EVENTS).values(received=received, **values).on_conflict_do_nothing()
        )
        if inserted.rowcount:
            fresh.append((number, document))
    return fresh


def append_state(connection: Connection, experiment: int, stream: str, document: Mapping[str, Any]) -> None:
    """Insert a document of the server itself under the next number of its stream."""
    last = connection.execute(
        select(func.max(EVENTS.c.number)).where(EVENTS.c.experiment == experiment, EVENTS.c.stream == stream)
    ).scalar()
    append_events(connection, experiment, stream, [(0 if last is None else last + 1, dict(document))])


def delete_stream(connection: Connection, experiment: int, stream: str) -> None:
    """Delete the events of a stream."""
    connection.execute(delete(EVENTS).where(EVENTS.c.experiment == experiment, EVENTS.c.stream == stream))


def command_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row of the commands as a document."""
    names = ("id", "user", "created", "state", "result", "settled")
    return {**{name: values[name] for name in names}, "command": values["document"], "revision": values["based_on"]}


def store_command(connection: Connection, values: dict[str, Any]) -> dict[str, Any]:
    """Insert a pending command and its event, and return its document."""
    values = {**values, "created": time.time(), "state": "pending", "result": {}, "settled": None}
    connection.execute(insert(COMMANDS).values(values))
    record = command_record(values)
    append_state(connection, values["experiment"], "commands", record)
    return record


def settle_command(connection: Connection, row: Row[Any], state: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Change the state of a command, insert the event, and return the document of the command."""
    values = {"state": state, "result": dict(result), "settled": time.time()}
    connection.execute(update(COMMANDS).where(COMMANDS.c.id == row.id).values(values))
    record = command_record({**row._asdict(), **values})
    append_state(connection, row.experiment, "commands", record)
    return record
