"""Migrations: an older schema is upgraded with its rows, a newer one is refused, and a broken file as well."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from places import ROOT
from sqlalchemy import create_engine, inspect

from cerebro_spark.steering.server import DatabaseRefusedError, open_database
from cerebro_spark.steering.server._tables import COMMANDS, CORRECTIONS, EVENTS, EXPERIMENTS, POOLS, REQUESTS

if TYPE_CHECKING:
    from pathlib import Path

FUTURE = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{latest}"


def upgrade():
    op.add_column("experiments", sa.Column("colour", sa.String, server_default="blue"))
    op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))
    {more}
"""


OURS = ROOT / "cerebro_spark" / "steering" / "server" / "migrations"
LATEST = max(path.name[1:5] for path in (OURS / "versions").glob("_0*.py"))


@pytest.fixture
def future(tmp_path: Path) -> Path:
    """Make the migrations of a later version."""
    folder = tmp_path / "migrations"
    shutil.copytree(OURS, folder)
    (folder / "versions" / "_9999_colour.py").write_text(FUTURE.format(more="", latest=LATEST))
    return folder


def insert_run(path: Path) -> None:
    engine = open_database(path)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO experiments (run, store, name, settings, session, created) VALUES ('r1', '', '', '{}', '', 0)"
        )
    engine.dispose()


def test_the_tables_are_those_of_the_migrations(tmp_path: Path) -> None:
    inspector = inspect(open_database(tmp_path / "server.sqlite"))
    for table in (EXPERIMENTS, EVENTS, COMMANDS, POOLS, REQUESTS, CORRECTIONS):
        assert [column["name"] for column in inspector.get_columns(table.name)] == [each.name for each in table.columns]


def test_an_older_schema_is_upgraded_with_its_rows(tmp_path: Path, future: Path) -> None:
    path = tmp_path / "server.sqlite"
    insert_run(path)
    engine = open_database(path, migrations=future)
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT run, colour FROM experiments").all()
        assert [tuple(row) for row in rows] == [("r1", "blue")]


def test_a_newer_schema_is_refused(tmp_path: Path, future: Path) -> None:
    path = tmp_path / "server.sqlite"
    open_database(path, migrations=future).dispose()
    with pytest.raises(DatabaseRefusedError, match=rf"must be {LATEST} or older, got 9999. Install the version"):
        open_database(path)


def test_an_upgrade_that_fails_leaves_the_older_schema(tmp_path: Path, future: Path) -> None:
    path = tmp_path / "server.sqlite"
    insert_run(path)
    (future / "versions" / "_9999_colour.py").write_text(
        FUTURE.format(more="raise KeyError('power cut')", latest=LATEST)
    )
    with pytest.raises(KeyError):
        open_database(path, migrations=future)
    columns = {column["name"] for column in inspect(open_database(path)).get_columns("experiments")}
    assert "colour" not in columns and "run" in columns


def test_tables_of_accounts_alone_count_as_older(tmp_path: Path) -> None:
    path = tmp_path / "server.sqlite"
    with create_engine(f"sqlite:///{path}").begin() as connection:
        connection.exec_driver_sql("CREATE TABLE users (name VARCHAR)")
    assert {"users", "experiments"} <= set(inspect(open_database(path)).get_table_names())


@pytest.mark.parametrize("content", [b"no database" * 100, None])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "server.sqlite"
    path.write_bytes(content) if content else path.mkdir()
    with pytest.raises(DatabaseRefusedError, match=r"database must be a writable SQLite file, got .*Move it away"):
        open_database(path)


def test_others_cannot_read_the_database(tmp_path: Path) -> None:
    open_database(tmp_path / "folder" / "server.sqlite")
    assert (tmp_path / "folder" / "server.sqlite").stat().st_mode & 0o077 == 0
