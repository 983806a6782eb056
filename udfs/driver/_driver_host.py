"""Under which name workers reach the driver."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from pyspark.sql import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["driver_host"]


def driver_host(spark: SparkSession) -> str:
    """Find the name or address under which workers reach this process: Spark's, or on Connect this machine's name."""
    configured = None if is_remote() else spark.conf.get("spark.driver.host", None)
    return configured or socket.gethostname()
