"""Database of the server: SQLite with durable commits, upgraded to the latest schema when it is opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DatabaseError

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["WRITING", "DatabaseRefusedError", "database_path", "open_database"]

WRITING = {"begin": "BEGIN IMMEDIATE"}
"""Execution options of a connection that writes: it waits for other writers at its begin, not in its middle."""

_MIGRATIONS = Path(__file__).with_name("migrations")


class DatabaseRefusedError(CerebroError, RuntimeError):
    """Database that this version cannot use."""


def database_path() -> Path:
    """Return the default path: ``cerebro/server.sqlite`` in ``XDG_DATA_HOME``, by default ``~/.local/share``.

    Examples
    --------
    >>> database_path().parts[-2:]
    ('cerebro', 'server.sqlite')
    """
    configured = os.environ.get("XDG_DATA_HOME", "")
    home = Path(configured) if configured.startswith("/") else Path.home() / ".local" / "share"
    return home / "cerebro" / "server.sqlite"


def open_database(path: Path, *, busy_s: float = 5.0, migrations: Path = _MIGRATIONS) -> Engine:
    """Open the database, create it if it is missing, and upgrade its schema.

    Each commit is on disk before it returns.

    Parameters
    ----------
    path : pathlib.Path
        File of the database; its folder is created.
    busy_s : float, optional
        Seconds to wait for another process that writes. Default 5.
    migrations : pathlib.Path, optional
        Folder of the migrations. Default: those of this version.

    Returns
    -------
    sqlalchemy.Engine
        Engine; its connections are usable in any thread.

    Raises
    ------
    DatabaseRefusedError
        The file is no database or cannot be written, or a later version has upgraded it.

    Examples
    --------
    >>> import tempfile
    >>> engine = open_database(Path(tempfile.mkdtemp()) / "server.sqlite")
    >>> with engine.connect() as connection:
    ...     connection.exec_driver_sql("PRAGMA journal_mode").scalar()
    'wal'
    """
    path = path.absolute()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Other users of the machine must not read commands and the hashes of passwords.
        path.touch(mode=0o600)
        engine = _engine(path, busy_s)
        with engine.connect() as connection:
            _upgrade(connection, path, migrations)
    except (OSError, DatabaseError, sqlite3.DatabaseError) as error:
        reason = getattr(error, "orig", None) or error
        raise DatabaseRefusedError(
            f"database must be a writable SQLite file, got {path}: {reason}. Move it away, or name another file."
        ) from error
    return engine


def _engine(path: Path, busy_s: float) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        # Connections are shared between threads one at a time.
        connect_args={"check_same_thread": False, "timeout": busy_s, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {setting}").close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # The driver itself would begin a transaction late, after a read that another writer makes stale.
        connection.exec_driver_sql(str(connection.get_execution_options().get("begin", "BEGIN")))

    return engine


def _upgrade(connection: Connection, path: Path, migrations: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection.execution_options(**WRITING)
    script = ScriptDirectory.from_config(config)
    with connection.begin():
        revision = MigrationContext.configure(connection).get_current_revision()
        try:
            script.get_revision(revision or "base")
        except CommandError as error:
            raise DatabaseRefusedError(
                f"schema of {path} must be {script.get_current_head()} or older, got {revision}. Install the version "
                "of cerebro-spark that wrote it, or a later one."
            ) from error
        if revision != script.get_current_head():
            command.upgrade(config, "head")
