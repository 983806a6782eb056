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
from ._constants import Constant, Relabel
from ._distances import METRICS, Coupling, Distances, Neighbors
from ._ensembles import Average, LogMean, Pairwise, Votes, WeightedMedian
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._functions import (
    Combine,
    Function,
    Like,
    LogSoftmax,
    Lookup,
    Power,
    Reduce,
    Shares,
    Within,
)
from ._interpolate import Interpolate
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
    "Average",
    "Builder",
    "Cast",
    "Clip",
    "Combine",
    "Compare",
    "CompilingError",
    "Complement",
    "Concatenate",
    "Constant",
    "Coupling",
    "Distances",
    "Finite",
    "Function",
    "Impute",
    "Interpolate",
    "Like",
    "Linear",
    "LogMean",
    "LogSoftmax",
    "Lookup",
    "Neighbors",
    "Node",
    "Normalise",
    "Operator",
    "Output",
    "Pairwise",
    "Power",
    "Program",
    "ProgramError",
    "Reduce",
    "Relabel",
    "Select",
    "Shares",
    "Sigmoid",
    "Softmax",
    "Trees",
    "UnsupportedOperatorError",
    "Votes",
    "WeightedMedian",
    "Within",
    "choose_strategy",
    "strategies_of",
]
