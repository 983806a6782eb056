"""Parsers of Spark ML stages, one module per family. Importing the package registers them.

A stage reads columns of a DataFrame and adds columns, which :class:`Columns` tracks.
"""

from vista_spark.compiling.sparkml import (
    _assembling,
    _buckets,
    _classifiers,
    _clustering,
    _linear,
    _scaling,
    _texts,
    _trees,
)
from vista_spark.compiling.sparkml._columns import NAMED, Columns
from vista_spark.compiling.sparkml._program import known_of, named_program, program_of, stages_of
from vista_spark.compiling.sparkml._stages import lower_stage

__all__ = [
    "NAMED",
    "Columns",
    "_assembling",
    "_buckets",
    "_classifiers",
    "_clustering",
    "_linear",
    "_scaling",
    "_texts",
    "_trees",
    "known_of",
    "lower_stage",
    "named_program",
    "program_of",
    "stages_of",
]
