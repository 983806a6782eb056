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
from ._distances import METRICS, Coupling, Distances, Neighbors
from ._elementwise import Broadcast, Choose, Products
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._functions import (
    Combine,
    Function,
    Interpolate,
    Like,
    LogSoftmax,
    Lookup,
    Power,
    Reduce,
    Shares,
    Within,
)
from ._geometry import FromCentres, OverNorm
from ._lookup import Buckets, FirstGreatest, Member, Reject, Translate
from ._operator import OPERATORS, Operator
from ._output import Output
from ._program import INPUT, Node, Program
from ._strategy import STRATEGIES, choose_strategy, strategies_of
from ._trees import Trees

__all__ = [
    "INPUT",
    "METRICS",
    "OPERATORS",
    "STRATEGIES",
    "Above",
    "ArgMax",
    "Arithmetic",
    "Broadcast",
    "Buckets",
    "Builder",
    "Cast",
    "Choose",
    "Clip",
    "Combine",
    "Compare",
    "CompilingError",
    "Complement",
    "Concatenate",
    "Coupling",
    "Distances",
    "Finite",
    "FirstGreatest",
    "FromCentres",
    "Function",
    "Impute",
    "Interpolate",
    "Like",
    "Linear",
    "LogSoftmax",
    "Lookup",
    "Member",
    "Neighbors",
    "Node",
    "Normalise",
    "Operator",
    "Output",
    "OverNorm",
    "Power",
    "Products",
    "Program",
    "ProgramError",
    "Reduce",
    "Reject",
    "Select",
    "Shares",
    "Sigmoid",
    "Softmax",
    "Translate",
    "Trees",
    "UnsupportedOperatorError",
    "Within",
    "choose_strategy",
    "strategies_of",
]
