"""Searches that users of a server launch in a pool: schema of a table, plan, launch, and drill-down."""

from cerebro_spark.launching._launch import LAUNCH, resume_launches
from cerebro_spark.launching._launched import Launched
from cerebro_spark.launching._plan import PLAN
from cerebro_spark.launching._table import SCHEMA

__all__ = ["LAUNCH", "LAUNCH_HANDLERS", "PLAN", "SCHEMA", "Launched", "resume_launches"]

LAUNCH_HANDLERS = (SCHEMA, PLAN, LAUNCH)
"""Handlers of this package."""
