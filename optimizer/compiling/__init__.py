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
from ._ensembles import Average, Pairwise, Votes, WeightedMedian
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._interpolate import Interpolate
from ._operator import OPERATORS, Operator
from ._output import Output
from ._probabilities import Log, LogMean, Shares
from ._program import INPUT, Node, Program
from ._strategy import STRATEGIES, choose_strategy, strategies_of
from ._trees import Trees

__all__ = [
    "INPUT",
    "OPERATORS",
    "STRATEGIES",
    "Above",
    "ArgMax",
    "Arithmetic",
    "Average",
    "Builder",
    "Cast",
    "Clip",
    "Compare",
    "CompilingError",
    "Complement",
    "Concatenate",
    "Constant",
    "Finite",
    "Impute",
    "Interpolate",
    "Linear",
    "Log",
    "LogMean",
    "Node",
    "Normalise",
    "Operator",
    "Output",
    "Pairwise",
    "Program",
    "ProgramError",
    "Relabel",
    "Select",
    "Shares",
    "Sigmoid",
    "Softmax",
    "Trees",
    "UnsupportedOperatorError",
    "Votes",
    "WeightedMedian",
    "choose_strategy",
    "strategies_of",
]
