"""Strategy of a search: the procedure that decides what trains, and the configurations it begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.procedures import Procedure

__all__ = ["Strategy", "as_space"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """Procedure of a search, created for each run, and the configurations that its runs record.

    Parameters
    ----------
    make : callable
        Function that makes a procedure. It takes the keyword arguments ``metric``, ``mode``, ``stoppers`` and
        ``limits`` of :class:`optimizer.procedures.Procedure`.
    list_configurations : callable
        Function that lists the params of all configurations of a grid. For other searches, those of one configuration.

    Examples
    --------
    >>> from functools import partial
    >>> from optimizer.procedures import Listed
    >>> configurations = [{"lr": 0.1}, {"lr": 0.01}]
    >>> strategy = Strategy(partial(Listed, configurations, epochs=2), lambda: configurations)
    >>> strategy.make(metric="loss", mode="min").plan().epochs
    4
    """

    make: Callable[..., Procedure]
    list_configurations: Callable[[], Sequence[dict[str, Any]]]


def as_space(search_space: Mapping[str, Any] | Space) -> Space:
    """Return a search space as a :class:`optimizer.space.Space`."""
    return search_space if isinstance(search_space, Space) else Space(search_space)
