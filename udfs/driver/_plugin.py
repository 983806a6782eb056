"""Jar of the JVM plugin, and the Spark settings that load it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["default_conf", "has_pushdown_rule", "plugin_conf", "plugin_jar"]

_CLASSES = {
    "spark.plugins": "org.cerebro.spark.CerebroPlugin",
    "spark.sql.extensions": "org.cerebro.spark.CerebroExtensions",
}


def plugin_jar() -> Path | None:
    """Return the path of the jar of this version, ``None`` if this installation has none.

    Wheels contain it. In a checkout ``make jvm`` builds it. Everything works without it.

    Examples
    --------
    >>> jar = plugin_jar()
    >>> jar is None or jar.suffix == ".jar"
    True
    """
    jar = Path(__file__).with_name(f"cerebro-spark_2.13-{__version__}.jar")
    return jar if jar.is_file() else None


def has_pushdown_rule(spark: SparkSession) -> bool:
    """Return whether a session has the optimizer rule of the plugin, and it is not disabled.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> has_pushdown_rule(SparkSession.active())
    False
    """
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    enabled = spark.conf.get("spark.cerebro.pushdown", "true") or "true"
    return _CLASSES["spark.sql.extensions"] in extensions and enabled.lower() != "false"


def plugin_conf(conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings that load the plugin into a Spark that is about to start.

    Parameters
    ----------
    conf : mapping of str to str, optional
        Settings of the caller. Their jars, plugins and extensions, or else those of ``spark-defaults.conf``, stay and
        come first.

    Returns
    -------
    dict of str to str
        ``spark.jars``, ``spark.plugins`` and ``spark.sql.extensions``; empty if there is no jar.

    Examples
    --------
    >>> sorted(plugin_conf()) in ([], ["spark.jars", "spark.plugins", "spark.sql.extensions"])
    True
    """
    jar = plugin_jar()
    # Spark splits lists of jars at commas.
    if jar is None or "," in str(jar):
        return {}
    before = default_conf() | dict(conf or {})
    return {
        name: _appended(before.get(name, ""), value) for name, value in {"spark.jars": str(jar), **_CLASSES}.items()
    }


def _appended(values: str, value: str) -> str:
    names = [each.strip() for each in values.split(",") if each.strip()]
    return ",".join(names if value in names else [*names, value])


def default_conf() -> dict[str, str]:
    """Read ``spark-defaults.conf``, whose values a setting of the session would replace."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines() if folder else []
    except OSError:
        return {}
    # A name and a value, separated by spaces, "=" or ":".
    pairs = [line.strip().replace("=", " ", 1).split(None, 1) for line in lines if not line.strip().startswith("#")]
    return {pair[0].rstrip(":"): pair[1].strip() for pair in pairs if len(pair) == 2}
