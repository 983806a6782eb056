"""Tables of experiments, events and commands."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "experiments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run", sa.String, nullable=False, unique=True),
        sa.Column("store", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("ended", sa.Float),
        sa.Column("runner_seen", sa.Float),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), nullable=False),
        sa.Column("stream", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("received", sa.Float, nullable=False),
        sa.UniqueConstraint("experiment", "stream", "number"),
        # Ids of deleted events are not used again: browsers resume after the last one that they know.
        sqlite_autoincrement=True,
    )
    op.create_index("events_of_experiment", "events", ["experiment", "id"])
    op.create_table(
        "commands",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("based_on", sa.Integer),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("result", sa.JSON, nullable=False),
        sa.Column("settled", sa.Float),
        sa.Column("idempotency_key", sa.String),
        sa.UniqueConstraint("user", "idempotency_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("commands_of_experiment", "commands", ["experiment", "state"])
