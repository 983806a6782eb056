"""Run compiled pipelines: operators as tensor modules, and what a Spark worker does with them (Hummingbird)."""

from udfs.compiling._archive import from_bytes, to_bytes
from udfs.compiling._column_reader import ColumnReader, Tables
from udfs.compiling._number_reader import is_number, read_numbers
from udfs.compiling._scorer import Scorer
from udfs.compiling._scoring import PipelineScoring

__all__ = ["ColumnReader", "PipelineScoring", "Scorer", "Tables", "from_bytes", "is_number", "read_numbers", "to_bytes"]
