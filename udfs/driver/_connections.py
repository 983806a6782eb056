"""Connections between Spark's processes: the driver's address, and encryption."""

from __future__ import annotations

import logging
import re
import socket
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["driver_host", "encrypts"]

_LOG = logging.getLogger(__name__)

_SETTING = re.compile(r"spark\.(network\.crypto|ssl(\.\w+)*)\.enabled")


def driver_host(spark: SparkSession) -> str:
    """Find the name or address under which workers reach this process: Spark's, or on Connect this machine's name."""
    configured = None if is_remote() else spark.conf.get("spark.driver.host", None)
    return configured or socket.gethostname()


def encrypts(spark: SparkSession) -> bool:
    """Return whether the session's settings have any of Spark's connections encrypted.

    Returns
    -------
    bool
        Whether ``spark.network.crypto.enabled``, ``spark.ssl.enabled`` or ``spark.ssl.<part>.enabled`` is true. False
        where the server does not tell its settings.
    """
    try:
        settings = dict(spark.conf.getAll)
    except PySparkException as error:
        _LOG.warning("the session does not tell whether Spark encrypts, so this counts as no: %s", error)
        return False
    return any(_SETTING.fullmatch(name) and value.strip().lower() == "true" for name, value in settings.items())
