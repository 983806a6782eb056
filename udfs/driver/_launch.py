"""Start a Spark session from Python alone: the one place that knows about launching."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from udfs.driver._java import JAVA_REMEDY, JavaNotFoundError, find_java
from udfs.driver._plugin import plugin_conf
from udfs.driver._preloading import preloading_conf

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["launch"]


def launch(master: str | None, conf: Mapping[str, str], *, name: str) -> SparkSession:
    """Start Spark, or join the session that is there.

    A JVM that starts here loads the plugin if this installation has its jar. A local one forks its workers from a
    process that has imported torch.

    Parameters
    ----------
    master : str or None
        ``local[*]``, or what ``spark-submit`` was given, where it is ``None``; ``sc://host:port`` is a Connect server.
    conf : mapping of str to str
        Spark settings; they win over the ones chosen here.

    Raises
    ------
    JavaNotFoundError
        Spark would have to start a JVM, and there is no Java that it runs on; the message has the remedy.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = "local[*]"
    if master is not None and master.startswith("sc://"):
        return _configured(SparkSession.builder.remote(master), conf).getOrCreate()
    is_there = SparkSession.getActiveSession() is not None
    java = None if submitted or is_there else find_java()
    # The workers' Python is this one, unless the cluster's administrator set another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    # Of a session that is there already, only what the user asks for is changed.
    settings = {} if is_there else {"spark.ui.showConsoleProgress": "false"}
    if master is not None and not is_there:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings |= {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": str(os.cpu_count() or 1)}
    settings |= dict(conf)
    # Only a JVM that starts now takes these; options of spark-submit in the environment are the user's choice.
    if java is not None and not os.environ.keys() & {"PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"}:
        settings |= plugin_conf(settings) | preloading_conf(master, settings)
    builder = _configured(builder, settings)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if java is None or error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise JavaNotFoundError(
            f"Spark needs Java 17 or 21, and could not start with {java}: its message is above. {JAVA_REMEDY}"
        ) from error


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder
