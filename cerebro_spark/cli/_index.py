"""``cerebro index``: runs of a store, read into the database of the server."""

from __future__ import annotations

from typing import Annotated

import typer

from cerebro_spark.cli._server_options import Database
from cerebro_spark.steering.server import database_path, index_store, open_database
from udfs.cli import refused_before_spark

__all__ = ["index_command"]


def index_command(
    store: Annotated[str, typer.Option(help="URI of the store, or a folder.")], database: Database = None
) -> None:
    """Read the journals of a store's runs into the database of the server.

    Rebuilds what the server shows after its database was lost, and adds runs that were trained without a server.
    Commands and users are in the database alone.
    """
    is_damaged = False
    with refused_before_spark():
        engine = open_database(database or database_path())
        for indexed in index_store(engine, store):
            typer.echo(f"{indexed.run}: {indexed.documents} new documents")
            if indexed.problem:
                typer.echo(f"{indexed.run}: {indexed.problem}", err=True)
                is_damaged = True
    if is_damaged:
        raise typer.Exit(1)
