"""Spark sessions: start by a plan, measured envelope and memory, and shipping to workers."""

from vista_spark.sessions._envelope import envelope, not_set
from vista_spark.sessions._memory_table import measured_memory, memory
from vista_spark.sessions._session import session
from vista_spark.sessions._shipping import ship_packages, ship_weights, write_packages

__all__ = [
    "envelope",
    "measured_memory",
    "memory",
    "not_set",
    "session",
    "ship_packages",
    "ship_weights",
    "write_packages",
]
