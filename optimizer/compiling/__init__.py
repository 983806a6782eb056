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
from ._builder import Builder, Sparsity
from ._categories import Encode, Entry, Filled, Known, OneHot, Recode
from ._chunk import FEW_ROWS, WALKED_ROWS
from ._columns import Concatenate, Finite, Impute, Select
from ._constants import Constant
from ._curves import UFUNCS, Bins, Missing, Monomials, Patch, PowerTransform, Quantiles, Splines, Ufunc
from ._distances import METRICS, Coupling, Distances, Neighbors
from ._elementwise import Choose, Products
from ._ensembles import Average, LogMean, Pairwise, Votes, WeightedMedian
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._functions import (
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
from ._interpolate import Interpolate
from ._kernel_maps import AdditiveChi2, CountSketch, KernelCentre
from ._leaves import Indicators, Leaves, LinearLeaves
from ._links import Link
from ._live_columns import live_columns
from ._lookups import CodeLookup, Replace
from ._nearest_fill import NearestFill
from ._operator import OPERATORS, Operator
from ._output import Output
from ._plan import BACKENDS, Plan, make_plan, saved_backend
from ._program import INPUT, Node, Program
from ._ranks import GatherElements, TopK
from ._reading import NarrowIntegers
from ._rules import RULES, Rule, reason_of
from ._sparsity import DENSE_COLUMNS, keeps_sparse, sparse_nodes
from ._strategy import STRATEGIES, choose_strategies, choose_strategy, saved_strategy
from ._texts import Bag, Damped, HasText, SparseRows
from ._trees import Trees
from .rewriting import Rewrite, Rewritten, rewrite

__all__ = [
    "BACKENDS",
    "DENSE_COLUMNS",
    "FEW_ROWS",
    "INPUT",
    "METRICS",
    "OPERATORS",
    "RULES",
    "STRATEGIES",
    "UFUNCS",
    "WALKED_ROWS",
    "Above",
    "AdditiveChi2",
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
    "CountSketch",
    "Coupling",
    "Damped",
    "Distances",
    "Encode",
    "Entry",
    "Filled",
    "Finite",
    "Function",
    "GatherElements",
    "HasText",
    "Impute",
    "Indicators",
    "Interpolate",
    "KernelCentre",
    "Known",
    "Leaves",
    "Like",
    "Linear",
    "LinearLeaves",
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
    "Products",
    "Program",
    "ProgramError",
    "Quantiles",
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
    "Splines",
    "TopK",
    "Trees",
    "Ufunc",
    "UnsupportedOperatorError",
    "Votes",
    "WeightedMedian",
    "Within",
    "choose_strategies",
    "choose_strategy",
    "keeps_sparse",
    "live_columns",
    "make_plan",
    "reason_of",
    "rewrite",
    "saved_backend",
    "saved_strategy",
    "sparse_nodes",
]
