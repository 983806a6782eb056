"""Table of corrected labels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "corrections",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), nullable=False),
        # JSON text, so that the number 7 and the text "7" are different ids.
        sa.Column("row", sa.String, nullable=False),
        sa.Column("given", sa.JSON),
        sa.Column("label", sa.JSON, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.UniqueConstraint("experiment", "row"),
        # The number of a correction that was replaced is not used again.
        sqlite_autoincrement=True,
    )
