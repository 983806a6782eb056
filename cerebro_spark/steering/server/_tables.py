"""Tables of the server's database, as the latest migration leaves them."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Float, Integer, MetaData, String, Table

__all__ = ["COMMANDS", "CORRECTIONS", "EVENTS", "EXPERIMENTS", "POOLS", "REQUESTS"]

_METADATA = MetaData()

EXPERIMENTS = Table(
    "experiments",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", String),
    Column("store", String),
    Column("name", String),
    Column("settings", JSON),
    Column("session", String),
    Column("created", Float),
    Column("ended", Float),
    Column("runner_seen", Float),
)
"""Runs; ``session`` names the process of the runner."""

EVENTS = Table(
    "events",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("experiment", Integer),
    Column("stream", String),
    Column("number", Integer),
    Column("document", JSON),
    Column("received", Float),
)
"""Documents of journals, and changes of commands and runs; each has one number in its stream."""

COMMANDS = Table(
    "commands",
    _METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String),
    Column("experiment", Integer),
    Column("document", JSON),
    Column("based_on", Integer),
    Column("user", String),
    Column("created", Float),
    Column("state", String),
    Column("result", JSON),
    Column("settled", Float),
    Column("idempotency_key", String),
)
"""Commands of users in the order in which they were accepted."""

POOLS = Table(
    "pools",
    _METADATA,
    Column("name", String, primary_key=True),
    Column("settings", JSON),
    Column("session", String),
    Column("created", Float),
)
"""Pools of workers; ``session`` names the process that answers for a pool."""

REQUESTS = Table(
    "requests",
    _METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String),
    Column("pool", String),
    Column("kind", String),
    Column("run", String),
    Column("document", JSON),
    Column("user", String),
    Column("created", Float),
    Column("state", String),
    Column("progress", JSON(none_as_null=True)),
    Column("result", JSON(none_as_null=True)),
    Column("message", String),
    Column("revision", Integer),
    Column("settled", Float),
    Column("acknowledged", Boolean),
    Column("idempotency_key", String),
)
"""Requests of users in the order in which they were accepted; ``run`` is the run that a request is about, or ``""``."""

CORRECTIONS = Table(
    "corrections",
    _METADATA,
    Column("number", Integer, primary_key=True),
    Column("experiment", Integer),
    Column("row", String),
    Column("given", JSON),
    Column("label", JSON),
    Column("user", String),
    Column("created", Float),
)
"""Latest decision on the label of each row; ``row`` is its id as JSON text."""
