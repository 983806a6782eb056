"""The ``vista`` command."""

from vista_spark.cli._app import app, layers_of, main
from vista_spark.cli._files import numeric_columns, read_images, read_table
from vista_spark.cli._survey import Survey, survey

__all__ = [
    "Survey",
    "app",
    "layers_of",
    "main",
    "numeric_columns",
    "read_images",
    "read_table",
    "survey",
]
