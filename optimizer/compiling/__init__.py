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
from ._columns import Concatenate, Finite, Impute, Select
from ._elementwise import Broadcast, Choose
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._geometry import FromCentres, OverNorm
from ._lookup import Buckets, FirstGreatest, Translate, Member, Reject
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
    "Buckets",
    "Builder",
    "Cast",
    "Choose",
    "Clip",
    "Compare",
    "CompilingError",
    "Complement",
    "Concatenate",
    "Broadcast",
    "Finite",
    "FirstGreatest",
    "FromCentres",
    "Impute",
    "Linear",
    "Translate",
    "Member",
    "Node",
    "Normalise",
    "Operator",
    "Output",
    "OverNorm",
    "Program",
    "ProgramError",
    "Reject",
    "Select",
    "Sigmoid",
    "Softmax",
    "Trees",
    "UnsupportedOperatorError",
    "choose_strategy",
    "strategies_of",
]
