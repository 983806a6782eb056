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
from ._cost import Costs, shape_of
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._operator import OPERATORS, Operator
from ._output import Output
from ._plan import BACKENDS, Plan, make_plan
from ._program import INPUT, Node, Program
from ._strategy import STRATEGIES, choose_strategy, strategies_of
from ._trees import Trees

__all__ = [
    "BACKENDS",
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
    "Costs",
    "Finite",
    "Impute",
    "Linear",
    "Node",
    "Normalise",
    "Operator",
    "Output",
    "Plan",
    "Program",
    "ProgramError",
    "Select",
    "Sigmoid",
    "Softmax",
    "Trees",
    "UnsupportedOperatorError",
    "choose_strategy",
    "make_plan",
    "shape_of",
    "strategies_of",
]
