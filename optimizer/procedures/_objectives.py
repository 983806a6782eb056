"""Objectives of a search: its metrics and their directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._trial import WORST

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Objective", "objectives_of"]


@dataclass(frozen=True, slots=True)
class Objective:
    """Metric that a search optimizes.

    Parameters
    ----------
    mode : {"min", "max"}
        Direction in which the metric improves.
    """

    metric: str
    mode: str

    @property
    def larger_is_better(self) -> bool:
        """True if larger values are better."""
        return self.mode == "max"

    def score(self, value: float) -> float:
        """Turn a value of the metric into a score: higher is better, :data:`WORST` where it is no finite number."""
        if not math.isfinite(value):
            return WORST
        return value if self.larger_is_better else -value

    def value(self, score: float) -> float:
        """Turn a score back into a value of the metric."""
        return score if self.larger_is_better else -score


def objectives_of(metric: str | Sequence[str], mode: str | Sequence[str]) -> tuple[Objective, ...]:
    """Pair metrics with modes.

    Parameters
    ----------
    metric : str or sequence of str
        One name, or several, the first of which decides where a single metric has to.
    mode : {"min", "max"}, or sequence of them
        One for each metric.

    Raises
    ------
    InvalidArgumentError
        There is no metric, one is not a name or comes twice, or the number of modes differs.

    Examples
    --------
    >>> objectives_of(["accuracy", "loss"], ["max", "min"])
    (Objective(metric='accuracy', mode='max'), Objective(metric='loss', mode='min'))
    """
    metrics, modes = _listed(metric), _listed(mode)
    if not metrics:
        raise InvalidArgumentError(f"metric must be a name or a sequence of names, got {metric!r}")
    for place, name in enumerate(metrics):
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"metric must be a name or a sequence of names, got {metric!r}")
        if name in metrics[:place]:
            raise InvalidArgumentError(f"metric must name each objective once, got {name!r} twice in {metric!r}")
    if len(modes) != len(metrics):
        raise InvalidArgumentError(
            f"mode must have one direction for each of the {len(metrics)} metrics of {metric!r}, got {mode!r}"
        )
    return tuple(Objective(name, one_of("mode", way, ("min", "max"))) for name, way in zip(metrics, modes, strict=True))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
