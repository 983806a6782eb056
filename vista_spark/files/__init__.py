"""Tables of a feature transfer in files, read by Spark or surveyed without it."""

from udfs.driver import read_table
from vista_spark.files._layers import parse_layers, parse_layout
from vista_spark.files._source import CLASS_LABEL, Loaded, Source
from vista_spark.files._survey import Survey, check_source, survey
from vista_spark.files._tables import numeric_columns, path_below, read_class_folders, read_images, without_ending

__all__ = [
    "CLASS_LABEL",
    "Loaded",
    "Source",
    "Survey",
    "check_source",
    "numeric_columns",
    "parse_layers",
    "parse_layout",
    "path_below",
    "read_class_folders",
    "read_images",
    "read_table",
    "survey",
    "without_ending",
]
