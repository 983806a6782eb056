"""Start of a Spark session with the settings of a plan."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from udfs.driver import launch, validate_arguments
from vista_spark.sessions._envelope import not_set
from vista_spark.sessions._executors import await_executor, check_workers
from vista_spark.sessions._shipping import ship_packages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from optimizer.memory import TransferPlan

__all__ = ["session"]

_LOG = logging.getLogger(__name__)


@validate_arguments
def session(
    master: str | None = None,
    *,
    plan: TransferPlan | None = None,
    conf: Mapping[str, str] | None = None,
    ship: bool = False,
) -> SparkSession:
    """Start Spark, or join the session that runs already.

    A Spark that starts here loads the JVM plugin (``docs/plugin.md``) if this installation has its jar.

    Parameters
    ----------
    master : str, optional
        ``local[*]`` by default, or what ``spark-submit`` was given; ``spark://...``, ``yarn``, ``k8s://...``; or
        ``sc://host:port`` for a Spark Connect server.
    plan : optimizer.memory.TransferPlan, optional
        Memory, cores and join as a plan has them: ``choice.physical`` of :func:`plan_feature_transfer`. Settings that
        a session which runs already cannot take any more are logged as warnings.
    conf : mapping of str to str
        Spark settings; they win over the plan's and over the ones chosen here.
    ship : bool
        Send cerebro-spark's own packages to the workers, for a cluster whose Python has the third-party ones only (the
        same versions as here). Not needed where cerebro-spark is installed on the nodes, or was given to
        ``spark-submit --py-files``.

    Returns
    -------
    pyspark.sql.SparkSession
        Session that is started, or the one that runs.

    Raises
    ------
    JavaNotFoundError
        Spark would have to start a JVM, and there is no Java; the message has the remedy.
    NoExecutorError
        No worker of the cluster is large enough for an executor of the plan.

    Examples
    --------
    >>> spark = session("local[2]")
    """
    planned = plan.to_spark_conf() if plan is not None else {}
    its_master = planned.pop("spark.master", None)
    settings = planned | dict(conf or {})
    if plan is not None:
        check_workers(master or its_master or "", settings)
    spark = launch(master or its_master, settings, name="vista")
    if plan is not None:
        await_executor(spark)
        for name, (has, wanted) in not_set(spark, plan).items():
            if name not in (conf or {}):
                _LOG.warning("the plan's %s=%s could not be set, the session has %s", name, wanted, has)
    if ship:
        ship_packages(spark)
    return spark
