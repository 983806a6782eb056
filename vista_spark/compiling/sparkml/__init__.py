"""Models of Spark ML, a file a family; importing this registers them.

A stage reads columns of a DataFrame and adds some: :class:`Columns` keeps account of them.
"""

from vista_spark.compiling.sparkml import (
    _assembling,
    _bayes,
    _buckets,
    _clustering,
    _expansion,
    _isotonic,
    _linear,
    _networks,
    _one_vs_rest,
    _scaling,
    _texts,
    _trees,
)
from vista_spark.compiling.sparkml._columns import NAMED, Columns
from vista_spark.compiling.sparkml._compose import stages_of
from vista_spark.compiling.sparkml._program import known_of, named_program, program_of
from vista_spark.compiling.sparkml._stages import lower_stage

__all__ = [
    "NAMED",
    "Columns",
    "_assembling",
    "_bayes",
    "_buckets",
    "_clustering",
    "_expansion",
    "_isotonic",
    "_linear",
    "_networks",
    "_one_vs_rest",
    "_scaling",
    "_texts",
    "_trees",
    "known_of",
    "lower_stage",
    "named_program",
    "program_of",
    "stages_of",
]
