"""The ``cerebro`` command."""

from cerebro_spark.cli._app import app, main

__all__ = [
    "app",
    "main",
]
