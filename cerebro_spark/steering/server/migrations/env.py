"""Environment that Alembic runs the migrations in, with the connection of :func:`open_database`."""

from __future__ import annotations

from alembic import context

__all__: list[str] = []

# The transaction of open_database contains all migrations: a server that is killed meanwhile leaves the old schema.
context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
