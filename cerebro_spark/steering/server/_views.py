"""Documents of experiments, configurations, metrics, units and commands, for viewers."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from cerebro_spark.steering.server._records import command_record
from cerebro_spark.steering.server._tables import COMMANDS, EVENTS, EXPERIMENTS
from udfs.web import ApiError, StreamEvent

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from cerebro_spark.steering.server._board import Board
    from optimizer.steering import Configuration

__all__ = ["commands", "configurations", "events_since", "experiment", "experiments", "metrics", "units"]

# Names of server-sent events by stream.
_EVENT_NAMES = {"commands": "command", "corrections": "message", "trials": "message"}
_MOST_UNIT_DOCUMENTS = 5000
# SQLite stores integers of 64 bits.
_LARGEST_ID = (1 << 63) - 1


def experiments(board: Board) -> list[dict[str, Any]]:
    """Return all runs, the latest first."""
    with board.reading() as connection:
        rows = connection.execute(select(EXPERIMENTS).order_by(EXPERIMENTS.c.id.desc())).all()
        return [_experiment(board, connection, row) for row in rows]


def experiment(board: Board, run: str) -> dict[str, Any]:
    """Return a run with its settings and the names of its metrics."""
    with board.reading() as connection:
        row = board.row(connection, run)
        names = {name for each in board.progress(connection, row).configurations.values() for name in _last(each)}
        names.add(row.settings["metric"])
        return {**row.settings, **_experiment(board, connection, row), "metrics": sorted(names)}


def _experiment(board: Board, connection: Connection, row: Row[Any]) -> dict[str, Any]:
    progress, settings = board.progress(connection, row), row.settings
    pending = select(func.count()).where(COMMANDS.c.experiment == row.id, COMMANDS.c.state == "pending")
    running = "running" if board.has_runner(row.id) else "away"
    return {
        **{name: getattr(row, name) for name in ("run", "name", "store", "created", "ended", "runner_seen")},
        **{name: settings[name] for name in ("metric", "mode", "procedure")},
        "state": ("failed" if progress.error else "ended") if row.ended is not None else running,
        "error": progress.error,
        "configurations": len(progress.configurations),
        "statuses": dict(Counter(each.status for each in progress.configurations.values())),
        "finished": progress.finished,
        "remaining": progress.remaining,
        "best": progress.best,
        "pending": connection.execute(pending).scalar(),
        "cursor": progress.cursor,
    }


def configurations(board: Board, run: str, status: str = "", owner: str | None = None, sort: str = "") -> list[Any]:
    """Return the configurations of a run.

    Parameters
    ----------
    board : Board
        Experiments of the server.
    run : str
        Name of the run.
    status : str, optional
        Status of the configurations to return. Default: any.
    owner : str, optional
        Owner of the configurations to return; ``""`` for the procedure. Default: any.
    sort : str, optional
        Name of a field or of a metric, with ``-`` first for descending order. Default: the order of their starts.

    Returns
    -------
    list of dict
        Documents of the configurations.

    Raises
    ------
    ApiError
        Status 404 for an unknown run, 422 for an unknown field.
    """
    with board.reading() as connection:
        known = board.progress(connection, board.row(connection, run)).configurations.values()
        documents = [_configuration(each) for each in known]
    documents = [
        each for each in documents if (not status or each["status"] == status) and owner in {None, each["owner"]}
    ]
    return _sorted(documents, sort) if sort else documents


def _configuration(known: Configuration) -> dict[str, Any]:
    return {
        "trial": known.trial_id,
        "params": known.params,
        "status": known.status,
        "reason": known.reason,
        "owner": known.owner,
        "parent": known.parent,
        "parent_epoch": known.parent_epoch,
        "granted": known.granted,
        "owed": known.owed,
        "finished": known.finished,
        "seconds": known.seconds,
        "metrics": {name: _json(value) for name, value in _last(known).items()},
        "revision": known.revision,
        "is_prioritised": known.is_prioritised,
        "pending": list(known.pending.values()),
        "traceback": known.traceback,
    }


def _sorted(documents: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    name, descending = sort.removeprefix("-"), sort.startswith("-")
    values = [each["metrics"].get(name, each.get(name)) for each in documents]
    if documents and all(value is None for value in values):
        raise ApiError(422, "sort", f"sort must be a field of a configuration or a metric, got {name[:100]!r}.")
    # Missing and infinite values come last, in both directions.
    kinds = (int, float) if any(isinstance(value, int | float) for value in values) else (str,)
    fits = [(value, each) for value, each in zip(values, documents, strict=True) if isinstance(value, kinds)]
    rest = [each for value, each in zip(values, documents, strict=True) if not isinstance(value, kinds)]
    return [each for _, each in sorted(fits, key=lambda pair: pair[0], reverse=descending)] + rest


def metrics(board: Board, run: str, name: str = "", since: int = 0) -> dict[str, Any]:
    """Return the curve of a metric by configuration, of the epochs after an event."""
    with board.reading() as connection:
        row = board.row(connection, run)
        progress = board.progress(connection, row)
        name = name or row.settings["metric"]
        curves = {each.trial_id: _curve(each, name, since) for each in progress.configurations.values()}
        curves = {trial: curve for trial, curve in curves.items() if curve["epochs"]}
        return {"name": name, "curves": curves, "next": progress.cursor}


def _curve(known: Configuration, name: str, since: int) -> dict[str, list[Any]]:
    epochs, values = [], []
    for epoch, (cursor, measured) in enumerate(zip(known.cursors, known.history, strict=True), 1):
        if cursor > since and name in measured:
            epochs.append(epoch)
            values.append(_json(measured[name]))
    return {"epochs": epochs, "values": values}


def units(board: Board, run: str, since: int = 0) -> dict[str, Any]:
    """Return the units that ended after an event; ``more`` is True if another request returns further ones."""
    with board.reading() as connection:
        row = board.row(connection, run)
        found_rows = connection.execute(
            select(EVENTS.c.id, EVENTS.c.document)
            .where(EVENTS.c.experiment == row.id, EVENTS.c.stream == "units", EVENTS.c.id > since)
            .order_by(EVENTS.c.id)
            .limit(_MOST_UNIT_DOCUMENTS)
        ).all()
    listed = [unit for each in found_rows for unit in each.document]
    last = found_rows[-1].id if found_rows else since
    return {"units": listed, "next": last, "more": len(found_rows) == _MOST_UNIT_DOCUMENTS}


def commands(board: Board, run: str) -> list[dict[str, Any]]:
    """Return all commands of a run in the order in which they were accepted."""
    with board.reading() as connection:
        row = board.row(connection, run)
        listed = select(COMMANDS).where(COMMANDS.c.experiment == row.id).order_by(COMMANDS.c.number)
        return [command_record(each._asdict()) for each in connection.execute(listed)]


def events_since(board: Board, run: str, position: int, limit: int) -> list[StreamEvent]:
    """Return events of a run, or of all runs for ``""``, after an event."""
    chosen = (
        select(EVENTS.c.id, EVENTS.c.stream, EVENTS.c.number, EVENTS.c.document, EXPERIMENTS.c.run)
        .join(EXPERIMENTS, EXPERIMENTS.c.id == EVENTS.c.experiment)
        .where(EVENTS.c.id > min(position, _LARGEST_ID))
        .order_by(EVENTS.c.id)
        .limit(limit)
    )
    with board.reading() as connection:
        rows = connection.execute(chosen.where(EXPERIMENTS.c.run == run) if run else chosen).all()
    return [
        StreamEvent(
            each.id,
            {"run": each.run, "stream": each.stream, "number": each.number, "document": each.document},
            _EVENT_NAMES.get(each.stream, each.stream),
        )
        for each in rows
    ]


def _last(known: Configuration) -> dict[str, float]:
    return known.history[-1] if known.history else {}


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
