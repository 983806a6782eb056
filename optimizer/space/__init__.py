"""Search spaces: random configurations, grids and small changes, each a function of a seed (Cerebro, Section 3.4)."""

from optimizer.space._define_by_run import HyperParameters
from optimizer.space._dimension import Dimension
from optimizer.space._discovery import discover_space
from optimizer.space._domain_form import read_domain
from optimizer.space._errors import SpaceError
from optimizer.space._range import integer, log_integer, log_uniform, uniform
from optimizer.space._repeat import repeat
from optimizer.space._space import Space
from optimizer.space._tree import choice

__all__ = [
    "Dimension",
    "HyperParameters",
    "Space",
    "SpaceError",
    "choice",
    "discover_space",
    "integer",
    "log_integer",
    "log_uniform",
    "read_domain",
    "repeat",
    "uniform",
]
