"""Checks that a cluster can start a plan's executors; otherwise Spark waits indefinitely."""

from __future__ import annotations

import json
import os
import threading
import uuid
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from pyspark.sql import is_remote

from optimizer.sizes import number_of_bytes
from udfs.driver import is_local
from vista_spark.errors import NoExecutorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["EXECUTOR_TIMEOUT", "await_executor", "check_workers"]

EXECUTOR_TIMEOUT = "spark.vista.executorTimeout"
"""Setting of a session: seconds that the first executor gets to start a task; 120 by default."""

_PATIENCE_S = "120"

# Of the page that a standalone master shows its workers on.
_MASTER_PORT = "8080"
_MASTER_SECONDS = 2.0


def check_workers(master: str, conf: Mapping[str, str]) -> None:
    """Compare the executors of a plan with the workers of a standalone cluster, where its master tells them.

    Only ``spark://host:port`` is asked, if its page is at the port ``SPARK_MASTER_WEBUI_PORT``. Raise NoExecutorError
    if no worker has the cores or the memory of one executor.
    """
    workers = _workers(master)
    if not workers or "spark.executor.cores" not in conf:
        return
    cores = int(conf["spark.executor.cores"])
    heap = number_of_bytes(conf.get("spark.executor.memory", "1g")) // 2**20
    if any(worker["cores"] >= cores and worker["memory"] >= heap for worker in workers):
        return
    most, largest = max(worker["cores"] for worker in workers), max(worker["memory"] for worker in workers)
    raise NoExecutorError(
        f"an executor of the plan has {cores} cores and a heap of {heap} MiB, and of the {len(workers)} workers of "
        f"{master} none has both (at most {most} cores, {largest} MiB): Spark would wait for ever; plan for these "
        f"machines, as `vista plan --nodes {len(workers)} --cores {most} --memory ...`"
    )


def _workers(master: str) -> list[dict[str, Any]]:
    """Ask the page of a standalone master for its workers; empty where it does not answer, or is another program's."""
    port = int(os.environ.get("SPARK_MASTER_WEBUI_PORT", _MASTER_PORT))
    for address in master.removeprefix("spark://").split(",") if master.startswith("spark://") else ():
        connection = HTTPConnection(address.rpartition(":")[0].strip("[]"), port, timeout=_MASTER_SECONDS)
        with suppress(OSError, HTTPException, ValueError, KeyError, TypeError):
            connection.request("GET", "/json/")
            page = json.loads(connection.getresponse().read())
            if page["url"] == f"spark://{address}":
                return [worker for worker in page["workers"] if worker["state"] == "ALIVE"]
        connection.close()
    return []


def await_executor(spark: SparkSession) -> None:
    """Wait until an executor has run a task, on classic Spark and on Connect.

    A local session has its executor already. Raise NoExecutorError if none has within ``spark.vista.executorTimeout``
    seconds.
    """
    if is_local(spark):
        return
    seconds = float((_setting(spark, EXECUTOR_TIMEOUT) or _PATIENCE_S).removesuffix("s"))
    # One of our own: a classic session that has had a tag cannot be serialized any more.
    session = spark if is_remote() else spark.newSession()
    tag = f"vista-executor-{uuid.uuid4()}"
    failures: list[Exception] = []

    def probe() -> None:
        session.addTag(tag)
        try:
            session.range(0, 1, 1, 1).collect()
        except Exception as error:  # noqa: BLE001 - of Spark, of any kind: raised below
            failures.append(error)
        finally:
            session.removeTag(tag)

    thread = threading.Thread(target=probe, name="await-executor", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        session.interruptTag(tag)
        raise NoExecutorError(
            f"an executor must run a task within {seconds:g} s, got none. Each executor takes {_size(spark)}, and "
            "Spark waits until a worker has as much. Start Spark by a plan for the existing workers (`vista plan "
            f"--cores --memory`); if other jobs use the cluster, or it grows slowly, raise {EXECUTOR_TIMEOUT}"
        )
    if failures:
        raise failures[0]


def _size(spark: SparkSession) -> str:
    names = ("spark.executor.cores", "spark.executor.memory", "spark.executor.memoryOverhead")
    settings = [f"{name}={value}" for name in names if (value := _setting(spark, name))]
    return ", ".join(settings) or "what Spark gives an executor by default (a heap of 1 GiB)"


def _setting(spark: SparkSession, name: str) -> str:
    return spark.conf.get(name, "") or ""
