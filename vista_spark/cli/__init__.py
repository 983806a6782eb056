"""The ``vista`` command."""

from vista_spark.cli._app import app, main

__all__ = ["app", "main"]
