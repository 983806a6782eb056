"""Search spaces: random configurations, grids and small changes, each a function of a seed (Cerebro, Section 3.4)."""

from ._dimension import Dimension
from ._errors import SpaceError
from ._range import integer, log_integer, log_uniform, uniform
from ._space import Space
from ._tree import choice

__all__ = [
    "Dimension",
    "Space",
    "SpaceError",
    "choice",
    "integer",
    "log_integer",
    "log_uniform",
    "uniform",
]
