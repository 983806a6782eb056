"""The Spark session of the tests: classic, or Connect where ``SPARK_REMOTE`` says so, as it does for Spark itself."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from places import IMPORTS
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CONNECT", "PREPARATION", "new_session"]

CONNECT = "SPARK_REMOTE" in os.environ
"""Whether this process talks to Spark through Connect; one process cannot do both."""

PREPARATION = f"""
import sys
sys.path[:0] = {IMPORTS!r}
from sessions import new_session
from texts import TOKENIZERS, tiny_bert
new_session()
if TOKENIZERS:
    tiny_bert()
"""
"""Code for a new process that loads a saved stage: it knows none of the models that this process registered."""


def new_session(scratch: Path | None = None, java_options: str = "") -> SparkSession:
    """Open a session on two cores, which leaves nothing in the working directory."""
    scratch = scratch or Path(tempfile.mkdtemp(prefix="spark-"))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if CONNECT:
        # A server then takes a free port, not always the same: a test may start a second one. Not "1", which would have
        # Spark's launcher look for the folders of its own build.
        os.environ["SPARK_TESTING"] = "yes"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.remote(os.environ["SPARK_REMOTE"]) if CONNECT else SparkSession.builder.master("local[2]")
    )
    with warnings.catch_warnings():
        # A Connect server takes these as it starts, and its client then says that they cannot be changed.
        warnings.filterwarnings("ignore", "Failed to set")
        session = _configured(builder.appName("tests"), _settings(scratch, java_options)).getOrCreate()
    os.environ.pop("SPARK_TESTING", None)  # with it, a process that measures a network cannot import a worker's modules
    return session


def _settings(scratch: Path, java_options: str) -> Mapping[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch / 'derby'} {java_options}",
        "spark.driver.memory": "2g",
    }


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder
