"""Tables of pools and of the requests that they answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "pools",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "requests",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("pool", sa.String, sa.ForeignKey("pools.name"), nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("progress", sa.JSON),
        sa.Column("result", sa.JSON),
        sa.Column("message", sa.String, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("settled", sa.Float),
        sa.Column("acknowledged", sa.Boolean, nullable=False),
        sa.Column("idempotency_key", sa.String),
        sa.UniqueConstraint("user", "idempotency_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("requests_of_pool", "requests", ["pool", "state"])
