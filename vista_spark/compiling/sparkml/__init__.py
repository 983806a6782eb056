"""Models of Spark ML, a file a family; importing this registers them.

A stage reads columns of a DataFrame and adds some: :class:`Columns` keeps account of them.
"""

from . import _assembling, _linear, _scaling, _trees
from ._columns import NAMED, Columns
from ._compose import stages_of
from ._program import columns_of, kinds_of, named_program, program_of
from ._stages import lower_stage

__all__ = [
    "NAMED",
    "Columns",
    "_assembling",
    "_linear",
    "_scaling",
    "_trees",
    "columns_of",
    "kinds_of",
    "lower_stage",
    "named_program",
    "program_of",
    "stages_of",
]
