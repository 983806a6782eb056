"""Start a Spark session from Python alone: the one place that knows about launching."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JavaNotFoundError", "launch"]


class JavaNotFoundError(CerebroError, RuntimeError):
    """Spark needs a Java runtime, and there is none."""


def launch(master: str | None, conf: Mapping[str, str], *, name: str) -> SparkSession:
    """Start Spark, or join the session that is there.

    Parameters
    ----------
    master : str or None
        ``local[*]``, or what ``spark-submit`` was given, where it is ``None``; ``sc://host:port`` is a Connect server.
    conf : mapping of str to str
        Spark settings; they win over the ones chosen here.

    Raises
    ------
    JavaNotFoundError
        Spark would have to start a JVM, and there is no Java; the message has the remedy.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = "local[*]"
    if master is not None and master.startswith("sc://"):
        return _configured(SparkSession.builder.remote(master), conf).getOrCreate()
    if not submitted:
        _check_java()
    # The workers' Python is this one, unless the cluster's administrator set another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    # Of a session that is there already, only what the user asks for is changed.
    there = SparkSession.getActiveSession() is not None
    settings = {} if there else {"spark.ui.showConsoleProgress": "false"}
    if master is not None and not there:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings |= {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": str(os.cpu_count() or 1)}
    return _configured(builder, settings | dict(conf)).getOrCreate()


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return
    if shutil.which("java"):
        return
    raise JavaNotFoundError(
        "Spark needs Java 17 or 21, and neither JAVA_HOME nor PATH leads to one. "
        "Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
        "conda: conda install -c conda-forge openjdk=17. No root? Unpack any JDK 17 and set JAVA_HOME to its folder."
    )
