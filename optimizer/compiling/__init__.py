"""Classical pipelines as programs of a few dozen operators on tables of numbers (Hummingbird, thesis chapter 5).

A parser per library lowers a fitted model to a :class:`Program`; ``udfs.compiling`` runs it. So N libraries and K
engines need N + K translations. A program is data: numbers in JSON, arrays beside them, no code.
"""

from ._arithmetic import (
    Above,
    ArgMax,
    Arithmetic,
    Cast,
    Clip,
    Compare,
    Complement,
    Linear,
    Normalise,
    Sigmoid,
    Softmax,
)
from ._builder import Builder
from ._codes import Lookup, Replace
from ._columns import Concatenate, Finite, Impute, Select
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._leaves import Indicators, Leaves, LinearLeaves
from ._links import Link
from ._operator import OPERATORS, Operator
from ._program import INPUT, Node, Output, Program
from ._strategy import STRATEGIES, choose_strategy, strategies_of
from ._trees import Trees

__all__ = [
    "INPUT",
    "OPERATORS",
    "STRATEGIES",
    "Above",
    "ArgMax",
    "Arithmetic",
    "Builder",
    "Cast",
    "Clip",
    "Compare",
    "CompilingError",
    "Complement",
    "Concatenate",
    "Finite",
    "Impute",
    "Indicators",
    "Leaves",
    "Linear",
    "LinearLeaves",
    "Link",
    "Lookup",
    "Node",
    "Normalise",
    "Operator",
    "Output",
    "Program",
    "ProgramError",
    "Replace",
    "Select",
    "Sigmoid",
    "Softmax",
    "Trees",
    "UnsupportedOperatorError",
    "choose_strategy",
    "strategies_of",
]
