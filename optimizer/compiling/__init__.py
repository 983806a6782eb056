"""Classical pipelines as programs of a few dozen operators on tables of numbers (Hummingbird, thesis chapter 5).

A parser per library lowers a fitted model to a :class:`Program`; ``udfs.compiling`` runs it. So N libraries and K
engines need N + K translations. A program is data: numbers in JSON, arrays beside them, no code.
"""

from optimizer.compiling._arithmetic import (
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
from optimizer.compiling._builder import Builder, Sparsity
from optimizer.compiling._categories import Encode, Entry, Filled, Known, OneHot, Recode
from optimizer.compiling._chunk import FEW_ROWS, WALKED_ROWS
from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._constants import Constant
from optimizer.compiling._curves import (
    UFUNCS,
    Bins,
    Missing,
    Monomials,
    Patch,
    PowerTransform,
    Quantiles,
    Ufunc,
)
from optimizer.compiling._distances import METRICS, Coupling, Distances, Least, Neighbors
from optimizer.compiling._elementwise import Choose
from optimizer.compiling._ensembles import Average, LogMean, Pairwise, Votes, WeightedMedian
from optimizer.compiling._errors import CompilingError, ProgramError, UnsupportedOperatorError
from optimizer.compiling._functions import (
    After,
    Combine,
    Function,
    Like,
    LogSoftmax,
    OrderedSum,
    Power,
    Reduce,
    Reject,
    Shares,
    Within,
)
from optimizer.compiling._interpolate import Interpolate
from optimizer.compiling._known_values import known_values
from optimizer.compiling._leaves import Leaves
from optimizer.compiling._links import Link
from optimizer.compiling._live_columns import live_columns
from optimizer.compiling._lookups import CodeLookup, Replace
from optimizer.compiling._nearest_fill import NearestFill
from optimizer.compiling._operator import OPERATORS, Operator
from optimizer.compiling._origins import origins
from optimizer.compiling._output import Output
from optimizer.compiling._plan import BACKENDS, Plan, make_plan, saved_backend
from optimizer.compiling._program import INPUT, Node, Program
from optimizer.compiling._reading_marks import READING_MARKS, NarrowIntegers, ReadAs
from optimizer.compiling._readings import Reading, readings
from optimizer.compiling._rules import RULES, Rule, reason_of
from optimizer.compiling._sparsity import DENSE_COLUMNS, keeps_sparse, sparse_nodes
from optimizer.compiling._strategy import STRATEGIES, choose_strategies, choose_strategy, saved_strategy
from optimizer.compiling._texts import Bag, Damped, HasText, SparseRows
from optimizer.compiling._trees import Trees
from optimizer.compiling.rewriting import Rewrite, Rewritten, rewrite

__all__ = [
    "BACKENDS",
    "DENSE_COLUMNS",
    "FEW_ROWS",
    "INPUT",
    "METRICS",
    "OPERATORS",
    "READING_MARKS",
    "RULES",
    "STRATEGIES",
    "UFUNCS",
    "WALKED_ROWS",
    "Above",
    "After",
    "ArgMax",
    "Arithmetic",
    "Average",
    "Bag",
    "Bins",
    "Builder",
    "Cast",
    "Choose",
    "Clip",
    "CodeLookup",
    "Combine",
    "Compare",
    "CompilingError",
    "Complement",
    "Concatenate",
    "Constant",
    "Coupling",
    "Damped",
    "Distances",
    "Encode",
    "Entry",
    "Filled",
    "Finite",
    "Function",
    "HasText",
    "Impute",
    "Interpolate",
    "Known",
    "Least",
    "Leaves",
    "Like",
    "Linear",
    "Link",
    "LogMean",
    "LogSoftmax",
    "Missing",
    "Monomials",
    "NarrowIntegers",
    "NearestFill",
    "Neighbors",
    "Node",
    "Normalise",
    "OneHot",
    "Operator",
    "OrderedSum",
    "Output",
    "Pairwise",
    "Patch",
    "Plan",
    "Power",
    "PowerTransform",
    "Program",
    "ProgramError",
    "Quantiles",
    "ReadAs",
    "Reading",
    "Recode",
    "Reduce",
    "Reject",
    "Replace",
    "Rewrite",
    "Rewritten",
    "Rule",
    "Select",
    "Shares",
    "Sigmoid",
    "Softmax",
    "SparseRows",
    "Sparsity",
    "Trees",
    "Ufunc",
    "UnsupportedOperatorError",
    "Votes",
    "WeightedMedian",
    "Within",
    "choose_strategies",
    "choose_strategy",
    "keeps_sparse",
    "known_values",
    "live_columns",
    "make_plan",
    "origins",
    "readings",
    "reason_of",
    "rewrite",
    "saved_backend",
    "saved_strategy",
    "sparse_nodes",
]
