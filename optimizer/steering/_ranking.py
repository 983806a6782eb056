"""Best value of each configuration, and their order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.steering._progress import Configuration, Progress

__all__ = ["best_value", "ranked"]


def best_value(configuration: Configuration, progress: Progress) -> float | None:
    """Return the best finite value of the metric that decides; None before the first one."""
    values = (metrics.get(progress.metric, math.nan) for metrics in configuration.history)
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None
    return max(finite) if progress.mode == "max" else min(finite)


def ranked(progress: Progress) -> list[tuple[Configuration, float]]:
    """List the configurations that have a value with it, the best first, and equal ones in the order of starts."""
    values = ((each, best_value(each, progress)) for each in progress.configurations.values())
    measured = [(each, value) for each, value in values if value is not None]
    return sorted(measured, key=lambda pair: pair[1], reverse=progress.mode == "max")
