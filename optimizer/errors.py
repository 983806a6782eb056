"""The root of the project's exception tree, and what the planners raise."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optimizer.memory import ClusterSpec

__all__ = [
    "CerebroError",
    "ColumnError",
    "EmptyInputError",
    "GraphError",
    "InfeasiblePlanError",
    "InvalidArgumentError",
    "LabelError",
    "UnknownLayerError",
    "nearest",
]


class CerebroError(Exception):
    """Base of every error that this project raises on purpose."""


class InvalidArgumentError(CerebroError, ValueError):
    """An argument that is not allowed; the message says which values are."""


class ColumnError(CerebroError, ValueError):
    """A column that is missing, of the wrong type, in the way, or with values that no network takes."""


class LabelError(ColumnError):
    """A label that cannot be learned: null, no number, of a single class, or a feature as well."""


class EmptyInputError(CerebroError, ValueError):
    """Too few rows: an empty table, tables that share no id, or fewer rows than partitions to fill."""


class GraphError(CerebroError, ValueError):
    """A layer graph that cannot be: a cycle, a dangling input, a duplicate name, a cut that is not one."""


class UnknownLayerError(CerebroError, KeyError):
    """A layer was named that the graph does not have.

    Parameters
    ----------
    name : str
        What was asked for.
    known : iterable of str
        What there is, in the order to be shown.
    where : str
        What was searched, for the message.
    """

    def __init__(self, name: str, known: Iterable[str], where: str = "this graph") -> None:
        known = list(known)
        hint = nearest(name, known)
        super().__init__(f"no layer {name!r} in {where}{hint}; layers: {', '.join(known)}")

    def __str__(self) -> str:
        return str(self.args[0])


class InfeasiblePlanError(CerebroError):
    """No configuration of a cluster meets every constraint of a plan.

    Parameters
    ----------
    message : str
    constraint : {"cores", "partition", "memory", "gpu", "driver", "heap"}
        The first one that fails with the fewest cores that were asked for.
    short_bytes : int
        By how many bytes; 0 for ``"cores"``.
    smallest : ClusterSpec, optional
        The cluster with each machine raised to the smallest that will do, the number of nodes as it is. ``None``
        where no machine would.
    """

    def __init__(
        self, message: str, constraint: str = "", short_bytes: int = 0, smallest: ClusterSpec | None = None
    ) -> None:
        super().__init__(message, constraint, short_bytes, smallest)
        self.constraint = constraint
        self.short_bytes = short_bytes
        self.smallest = smallest

    @property
    def smallest_memory_bytes(self) -> int | None:
        """Memory of a worker node with which there is a plan; ``None`` where no memory would do."""
        return None if self.smallest is None else self.smallest.memory_bytes

    def __str__(self) -> str:
        return str(self.args[0])


def nearest(name: str, known: Iterable[str]) -> str:
    """A phrase that offers the closest known name, or nothing: ``"; did you mean 'fc7'?"``."""
    match = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {match[0]!r}?" if match else ""
