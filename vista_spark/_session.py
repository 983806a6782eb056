"""A Spark session from Python alone: the one place that knows about launching."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from vista_spark._envelope import not_set
from vista_spark._shipping import ship_packages
from vista_spark.errors import JavaNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.memory import TransferPlan

__all__ = ["session"]

_LOG = logging.getLogger(__name__)


def session(
    master: str | None = None,
    *,
    plan: TransferPlan | None = None,
    conf: Mapping[str, str] | None = None,
    ship: bool = False,
) -> SparkSession:
    """Start Spark, or join the session that is there.

    Parameters
    ----------
    master : str, optional
        ``local[*]`` by default, or what ``spark-submit`` was given; ``spark://...``, ``yarn``, ``k8s://...``; or
        ``sc://host:port`` for a Spark Connect server.
    plan : optimizer.memory.TransferPlan, optional
        Memory, cores and join as a plan has them: ``choice.physical`` of :func:`plan_feature_transfer`. What a
        session that runs already cannot take any more is logged as a warning, setting by setting.
    conf : mapping of str to str
        Spark settings; they win over the plan's and over the ones chosen here.
    ship : bool
        Send cerebro-spark's own packages to the workers, for a cluster whose Python has the third-party ones only (the
        same versions as here). Not needed where cerebro-spark is installed on the nodes, or was given to
        ``spark-submit --py-files``.

    Returns
    -------
    pyspark.sql.SparkSession

    Raises
    ------
    JavaNotFoundError
        Spark would have to start a JVM, and there is no Java; the message has the remedy.

    Examples
    --------
    >>> spark = session("local[2]")
    """
    planned = plan.to_spark_conf() if plan is not None else {}
    its_master = planned.pop("spark.master", None)
    spark = _joined(master or its_master, planned | dict(conf or {}))
    if plan is not None:
        for name, (has, wanted) in not_set(spark, plan).items():
            if name not in (conf or {}):
                _LOG.warning("the plan's %s=%s could not be set, the session has %s", name, wanted, has)
    if ship:
        ship_packages(spark)
    return spark


def _joined(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = "local[*]"
    if master is not None and master.startswith("sc://"):
        return _configured(SparkSession.builder.remote(master), conf).getOrCreate()
    if not submitted:
        _check_java()
    # The workers' Python is this one, unless the cluster's administrator set another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("vista")
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
