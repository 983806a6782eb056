"""Planned and measured memory of the executors, from the JVM plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, IllegalArgumentException

from udfs.driver import validate_arguments
from vista_spark.errors import PluginNotLoadedError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["measured_memory", "memory"]

_FUNCTION = "cerebro_memory"
_REMEDY = (
    "Start Spark anew with the JVM plugin: session() loads it if this installation has a jar (`vista jar` prints its "
    'path); give spark-submit and Connect servers --jars "$(vista jar)" '
    "--conf spark.plugins=org.cerebro.spark.CerebroPlugin "
    "--conf spark.sql.extensions=org.cerebro.spark.CerebroExtensions"
)


@validate_arguments
def memory(spark: SparkSession) -> DataFrame:
    """Compare the memory of each executor with the plan that the session was started by.

    The JVM plugin (``docs/plugin.md``) samples every second. The result is a snapshot, of the call on classic Spark and
    of each action on Connect.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Session whose Spark was started with the plugin; a Connect session if its server was.

    Returns
    -------
    pyspark.sql.DataFrame
        Row by executor and region:

        ``executor``, ``host`` : str
            Executor; ``driver`` in local mode.
        ``region`` : str
            ``jvm``, ``heap``, ``storage``, ``core``, ``user``, ``python``, ``shared``, ``task``, ``total``; a
            ``worker`` with its process id for each Python worker that computes a task; ``container`` if its memory is
            limited.
        ``predicted_bytes`` : int or null
            Bytes by the plan; null without one. Of ``container``, its limit.
        ``measured_bytes``, ``peak_bytes`` : int or null
            Bytes at the last sample, and the most of all samples since the executor started.
        ``measure`` : str
            Kind of measurement, such as the RSS or the PSS of which processes.
        ``sampled_at`` : timestamp
            Time of the last sample; samples without a change are sent every 10 seconds.

    Raises
    ------
    PluginNotLoadedError
        Spark was started without the plugin, or with ``spark.cerebro.memory.metrics=false``.

    Examples
    --------
    >>> from vista_spark import session
    >>> memory(session("local[2]")).show()  # doctest: +SKIP
    """
    try:
        table = spark.sql("SELECT * FROM cerebro_memory()")
        # A Connect client reports an unknown function only when something needs the schema.
        return table.select(*table.columns)
    except AnalysisException as error:
        if _FUNCTION not in str(error):
            raise
        raise PluginNotLoadedError(
            f"spark must be a session with the SQL function cerebro_memory, got one without the JVM plugin. {_REMEDY}"
        ) from error
    except IllegalArgumentException as error:
        raise PluginNotLoadedError(
            "spark must be a session whose spark.plugins has org.cerebro.spark.CerebroPlugin, and without "
            f"spark.cerebro.memory.metrics=false, got one without memory metrics. {_REMEDY}"
        ) from error


def measured_memory(spark: SparkSession) -> pd.DataFrame | None:
    """Collect :func:`memory`; ``None`` without the plugin, or before an executor has sent a sample."""
    try:
        rows = memory(spark).drop("sampled_at").toPandas()
    except PluginNotLoadedError:
        return None
    return rows if len(rows) else None
