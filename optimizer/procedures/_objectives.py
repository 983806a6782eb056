"""Objectives: the metrics that a search is to make good, and which way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._trial import WORST

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["Objective", "objectives_of"]


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric that a search is to make good.

    Parameters
    ----------
    metric : str
    mode : {"min", "max"}
        Which way it is better.
    """

    metric: str
    mode: str

    @property
    def larger_is_better(self) -> bool:
        """Whether more of it is better."""
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
    """Put metrics and modes together.

    Parameters
    ----------
    metric : str or sequence of str
        One name, or several, the first of which decides where one has to.
    mode : {"min", "max"}, or sequence of them
        One for each metric.

    Raises
    ------
    InvalidArgumentError
        There is no metric, one is no name or comes twice, or there are more or fewer modes.

    Examples
    --------
    >>> objectives_of(["accuracy", "loss"], ["max", "min"])
    (Objective(metric='accuracy', mode='max'), Objective(metric='loss', mode='min'))
    """
    metrics, modes = _listed(metric), _listed(mode)
    if not metrics:
        raise InvalidArgumentError(f"metric={metric!r}: the name of the metric that decides, or several names")
    for place, name in enumerate(metrics):
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"metric={metric!r}: the name of the metric that decides, or several names")
        if name in metrics[:place]:
            raise InvalidArgumentError(f"metric={metric!r} has {name!r} twice: name each objective once")
    if len(modes) != len(metrics):
        raise InvalidArgumentError(
            f"mode={mode!r}: {_count(modes)} for metric={metric!r}; give one for each of the {len(metrics)}"
        )
    return tuple(Objective(name, one_of("mode", way, ("min", "max"))) for name, way in zip(metrics, modes, strict=True))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _count(values: Iterable[Any]) -> str:
    count = len(list(values))
    return "one mode" if count == 1 else f"{count} modes"
