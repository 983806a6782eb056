"""``vista jar``: path of the JVM plugin's jar."""

from __future__ import annotations

import typer

from udfs.cli import refused_before_spark
from udfs.driver import plugin_jar
from vista_spark.errors import InvalidArgumentError

__all__ = ["jar_command"]


def jar_command() -> None:
    """Print the path of the jar of the JVM plugin, for spark-submit --jars."""
    with refused_before_spark():
        jar = plugin_jar()
        if jar is None:
            raise InvalidArgumentError(
                "this installation of cerebro-spark must contain the jar of the JVM plugin, got none. Run `make jvm` "
                "in a checkout, or install the wheel of `make dist`"
            )
    typer.echo(jar)
