"""Experiments of the database, with their progress in memory."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from cerebro_spark.steering.server._database import WRITING
from cerebro_spark.steering.server._records import experiment_row
from cerebro_spark.steering.server._tables import EVENTS
from optimizer.errors import nearest
from optimizer.steering import Progress
from udfs.web import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine, Row

    from udfs.web import Changes

__all__ = ["Board"]

# A runner asks for commands each 20 seconds.
_AWAY_S = 60.0


class Board:
    """Experiments of a database, for one server process.

    Progress is folded from committed events alone, so that a transaction that fails leaves no trace in memory. Events
    that another process inserts, such as ``cerebro index``, appear with the next request.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Engine of :func:`open_database`.
    changes : udfs.web.Changes
        Notified after each change.
    """

    def __init__(self, engine: Engine, changes: Changes) -> None:
        self._reader, self._writer = engine, engine.execution_options(**WRITING)
        self._changes = changes
        self._lock = threading.RLock()
        self._progress: dict[int, Progress] = {}
        # By a monotonic clock: a runner is not lost because the time of day jumps.
        self._seen: dict[int | str, float] = {}

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads; progress does not change meanwhile."""
        with self._lock, self._reader.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes, commit it to disk, and notify those that wait."""
        with self._lock, self._writer.begin() as connection:
            yield connection
        self._changes.notify()

    def row(self, connection: Connection, run: str) -> Row[Any]:
        """Return the row of a run.

        Raises
        ------
        ApiError
            Status 404; the message suggests a similar name.
        """
        row = experiment_row(connection, run)
        if row is None:
            from_table = connection.exec_driver_sql("SELECT run FROM experiments").scalars().all()
            hint = nearest(run, from_table) or "."
            raise ApiError(404, "unknown_run", f"run must be an experiment of this server, got {run[:200]!r}{hint}")
        return row

    def progress(self, connection: Connection, row: Row[Any]) -> Progress:
        """Return the progress of a run after all committed events; call it before the caller's own writes."""
        settings = row.settings
        progress = self._progress.setdefault(row.id, Progress())
        progress.metric, progress.mode = settings["metric"], settings["mode"]
        progress.epochs, progress.workers = settings["epochs"], settings["workers"]
        events = connection.execute(
            select(EVENTS.c.id, EVENTS.c.stream, EVENTS.c.document)
            .where(EVENTS.c.experiment == row.id, EVENTS.c.id > progress.cursor)
            .order_by(EVENTS.c.id)
        )
        for event in events:
            progress.fold(event.stream, event.document, event.id)
        return progress

    def see_runner(self, name: int | str) -> None:
        """Record that the runner of a run, by the id of its row, or of a pool, by its name, has sent a request."""
        self._seen[name] = time.monotonic()

    def forget_runner(self, name: int | str) -> None:
        """Record that a runner has disconnected."""
        self._seen.pop(name, None)

    def has_runner(self, name: int | str) -> bool:
        """Return True if the runner of a run or of a pool is connected."""
        return time.monotonic() - self._seen.get(name, -_AWAY_S) < _AWAY_S
