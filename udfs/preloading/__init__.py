"""Daemon of Python workers that imports the framework once, before Spark forks the workers."""

from udfs.preloading._fork_safety import fork_hazard

__all__ = ["DAEMON_MODULE", "fork_hazard"]

DAEMON_MODULE = "udfs.preloading.daemon"
"""Value of the Spark setting ``spark.python.daemon.module``."""
