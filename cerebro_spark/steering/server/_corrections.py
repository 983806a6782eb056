"""Corrections of labels: the latest decision of a user on each row of an experiment's table."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from cerebro_spark.steering.server._records import append_state
from cerebro_spark.steering.server._tables import CORRECTIONS
from udfs.web import ApiError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from cerebro_spark.steering.server._board import Board

    Value = str | int | float | bool

__all__ = ["correct", "corrections", "corrections_csv", "withdraw_correction"]

# Spreadsheets compute cells that begin with these characters; a negative number is no formula.
_FORMULA = re.compile(r"[=+@\t\r]|-(?![0-9.]+$)")


def corrections(board: Board, run: str) -> list[dict[str, Any]]:
    """Return the corrections of a run, the latest first."""
    with board.reading() as connection:
        return [_record(each) for each in _rows(connection, board.row(connection, run).id)]


def correct(board: Board, run: str, decision: dict[str, Any], *, user: str) -> dict[str, Any]:
    """Store the label of a row; it is on disk when this function returns.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    run : str
        Name of the run.
    decision : dict
        ``row`` (id), ``label``, ``given_label`` (that of the table), and ``replaces``: the number of the correction of
        this row that the user has seen, None for none.
    user : str
        Name of the user.

    Raises
    ------
    ApiError
        Status 404 for an unknown run, 409 if another user has decided meanwhile.
    """
    row, label = json.dumps(decision["row"]), decision["label"]
    with board.writing() as connection:
        experiment = board.row(connection, run).id
        known = connection.execute(
            select(CORRECTIONS).where(CORRECTIONS.c.experiment == experiment, CORRECTIONS.c.row == row)
        ).first()
        if known is not None and (known.label, known.user) == (label, user) and type(known.label) is type(label):
            return _record(known)  # the reply to an earlier attempt was lost
        if (known.number if known else None) != decision["replaces"]:
            now = f"{known.user} has set it to {known.label!r}" if known else "the correction was withdrawn"
            raise ApiError(409, "conflict", f"label of row {row} has changed: {now}. Look at it, and decide again.")
        if known is not None:
            connection.execute(delete(CORRECTIONS).where(CORRECTIONS.c.number == known.number))
        values = {"experiment": experiment, "row": row, "given": decision["given_label"], "label": label}
        values |= {"user": user, "created": time.time()}
        connection.execute(insert(CORRECTIONS).values(**values))
        record = _record(next(each for each in _rows(connection, experiment) if each.row == row))
        append_state(connection, experiment, "corrections", record)
        return record


def withdraw_correction(board: Board, run: str, number: int) -> None:
    """Delete a correction; a second call changes nothing.

    Raises
    ------
    ApiError
        Status 404 for an unknown run.
    """
    with board.writing() as connection:
        experiment = board.row(connection, run).id
        deleted = connection.execute(
            delete(CORRECTIONS).where(CORRECTIONS.c.experiment == experiment, CORRECTIONS.c.number == number)
        )
        if deleted.rowcount:
            append_state(connection, experiment, "corrections", {"number": number, "withdrawn": True})


def corrections_csv(board: Board, run: str, id_column: str) -> str:
    """Write the corrections as the CSV that ``cerebro_spark.debugging.relabel`` reads.

    Texts that a spreadsheet would compute begin with an apostrophe.
    """
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([_cell(each) for each in (id_column, "given_label", "corrected_label", "user", "time")])
    for each in corrections(board, run):
        when = datetime.fromtimestamp(each["created"], UTC).isoformat(timespec="seconds")
        values = (each["row"], each["given_label"], each["label"], each["user"], when)
        writer.writerow([_cell(value) for value in values])
    return file.getvalue()


def _rows(connection: Connection, experiment: int) -> list[Row[Any]]:
    chosen = select(CORRECTIONS).where(CORRECTIONS.c.experiment == experiment).order_by(CORRECTIONS.c.number.desc())
    return list(connection.execute(chosen))


def _record(row: Row[Any]) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in ("number", "label", "user", "created")}
    return {**values, "row": json.loads(row.row), "given_label": row.given}


def _cell(value: Value | None) -> Value:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
