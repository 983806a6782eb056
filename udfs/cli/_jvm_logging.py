"""Keep the start of a JVM quiet: a command's own lines are not to drown in Spark's."""

from __future__ import annotations

import atexit
import os
import tempfile
from pathlib import Path

__all__ = ["quiet_spark"]

_OPTIONS = "SPARK_SUBMIT_OPTS"
_FILE = "log4j2.properties"
_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def quiet_spark() -> None:
    """Make the JVM of this process log only errors; Spark still prints two lines about its log levels.

    ``spark.log.level`` comes into force only once a session is there. What the user has set stays: a
    ``log4j2.properties`` in Spark's folder of settings, or log4j in ``SPARK_SUBMIT_OPTS``.
    """
    options = os.environ.get(_OPTIONS, "")
    folders = [os.environ.get("SPARK_CONF_DIR"), os.path.join(os.environ.get("SPARK_HOME") or "", "conf")]  # noqa: PTH118
    if "log4j" in options or any(folder and (Path(folder) / _FILE).is_file() for folder in folders):
        return
    with tempfile.NamedTemporaryFile("w", prefix="cerebro-spark-", suffix=f"-{_FILE}", delete=False) as file:
        file.write(_SETTINGS)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    os.environ[_OPTIONS] = f"{options} -Dlog4j2.configurationFile={Path(file.name).as_uri()}".strip()
