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
from ._categories import Encode, Entry, Filled, Known, Match, OneHot, Recode
from ._codes import CodeLookup, Replace
from ._columns import Concatenate, Finite, Impute, Select
from ._constants import Constant, Relabel
from ._curves import UFUNCS, Bins, Missing, Monomials, Patch, PowerTransform, Quantiles, Splines, Ufunc
from ._distances import METRICS, Coupling, Distances, Neighbors
from ._elementwise import Broadcast, Choose, Products
from ._ensembles import Average, LogMean, Pairwise, Votes, WeightedMedian
from ._errors import CompilingError, ProgramError, UnsupportedOperatorError
from ._functions import (
    Combine,
    Function,
    Like,
    LogSoftmax,
    Lookup,
    OrderedSum,
    Power,
    Reduce,
    Shares,
    Within,
)
from ._geometry import FromCentres, OverNorm
from ._guards import After, Held
from ._interpolate import Interpolate
from ._kernel_maps import AdditiveChi2, CountSketch, KernelCentre
from ._leaves import Indicators, Leaves, LinearLeaves
from ._links import Link
from ._lookup import Buckets, FirstGreatest, Member, Reject, Translate
from ._operator import OPERATORS, Operator
from ._output import Output
from ._program import INPUT, Node, Program
from ._rewrites import Rewritten, rewrite
from ._rewrites_rebuild import Rewrite
from ._sparsity import DENSE_COLUMNS, keeps_sparse, sparse_nodes
from ._strategy import STRATEGIES, choose_strategy, strategies_of
from ._texts import Bag, Damped, HasText, SparseRows
from ._trees import Trees

__all__ = [
    "DENSE_COLUMNS",
    "INPUT",
    "METRICS",
    "OPERATORS",
    "STRATEGIES",
    "UFUNCS",
    "Above",
    "AdditiveChi2",
    "After",
    "ArgMax",
    "Arithmetic",
    "Average",
    "Bag",
    "Bins",
    "Broadcast",
    "Buckets",
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
    "FirstGreatest",
    "FromCentres",
    "Function",
    "HasText",
    "Held",
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
    "Lookup",
    "Match",
    "Member",
    "Missing",
    "Monomials",
    "Neighbors",
    "Node",
    "Normalise",
    "OneHot",
    "Operator",
    "OrderedSum",
    "Output",
    "OverNorm",
    "Pairwise",
    "Patch",
    "Power",
    "PowerTransform",
    "Products",
    "Program",
    "ProgramError",
    "Quantiles",
    "Recode",
    "Reduce",
    "Reject",
    "Relabel",
    "Replace",
    "Rewrite",
    "Rewritten",
    "Select",
    "Shares",
    "Sigmoid",
    "Softmax",
    "SparseRows",
    "Splines",
    "Translate",
    "Trees",
    "Ufunc",
    "UnsupportedOperatorError",
    "Votes",
    "WeightedMedian",
    "Within",
    "choose_strategy",
    "keeps_sparse",
    "rewrite",
    "sparse_nodes",
    "strategies_of",
]
