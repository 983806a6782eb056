"""``cerebro users``: users and programs of the server, listed and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cerebro_spark.cli._server_options import Database
from optimizer.errors import InvalidArgumentError, nearest
from udfs.cli import print_table, refused_before_spark

if TYPE_CHECKING:
    from udfs.web import Accounts

__all__ = ["list_users_command", "remove_user_command"]


def list_users_command(database: Database = None) -> None:
    """List the users and programs of a server."""
    table = Table("name", "role", "signs in with", "created")
    for user in _accounts(database).users():
        table.add_row(user.name, user.role, "password" if user.has_password else "token", user.created.isoformat(" "))
    print_table(table)


def remove_user_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of users or programs.")],
    database: Database = None,
) -> None:
    """Remove users and programs, and end their sessions; a running server refuses them at once."""
    accounts = _accounts(database)
    known = [user.name for user in accounts.users()]
    with refused_before_spark():
        for name in names:
            if name not in known:
                raise InvalidArgumentError(
                    f"name must be a user of the server, got {name!r}{nearest(name, known) or '.'}"
                )
    for name in names:
        accounts.remove(name)
        typer.echo(f"removed {name}")


def _accounts(database: Database) -> Accounts:
    from cerebro_spark.steering.server import database_path, open_database
    from udfs.web import Accounts

    path = database or database_path()
    with refused_before_spark():
        if not path.exists():
            raise InvalidArgumentError(f"database must be the file of a server, got {path}. Start cerebro serve first.")
        return Accounts(open_database(path))
