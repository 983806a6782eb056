"""Elimination of candidates that are worse or less stable than the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.arguments import real

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Elimination"]


@dataclass(frozen=True, slots=True)
class Elimination:
    """Rule that eliminates candidates by metrics over blocks of rows.

    In the case study of Cerebro's thesis (section 4.1), models "with low accuracy or high variance, relative to
    competing models, on any of these metrics were eliminated". Here a candidate is eliminated if for any metric

    * its mean over the blocks is worse than the best candidate's mean by more than ``errors`` standard errors, or
    * its standard deviation over the blocks is more than ``spread`` times the median of the candidates.

    The standard error is the median of the candidates, so that an unstable candidate does not loosen the limit.

    Parameters
    ----------
    errors : float
        Number of standard errors. Default 2.
    spread : float
        Multiple of the median standard deviation, above 1. Default 2.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed.

    Examples
    --------
    >>> accuracies = [[0.90, 0.91, 0.89], [0.60, 0.61, 0.62], [0.80, 0.99, 0.92]]
    >>> for number, reason in Elimination().reasons({"accuracy": np.array(accuracies)}, {"accuracy": True}).items():
    ...     print(number, reason)
    1 accuracy 0.61, and the best has 0.9033
    2 accuracy varies by 0.09609, and by 0.01 in the median
    """

    errors: float = 2.0
    spread: float = 2.0

    def __post_init__(self) -> None:
        real("errors", self.errors, 0)
        real("spread", self.spread, 1, above=True)

    def reasons(
        self, values: Mapping[str, NDArray[np.float64]], larger_is_better: Mapping[str, bool]
    ) -> dict[int, str]:
        """Explain why candidates are eliminated.

        Parameters
        ----------
        values : mapping of str to array, shape (candidates, blocks)
            Value of each metric, by its name. NaN is a block in which it is not defined.
        larger_is_better : mapping of str to bool
            Direction of each metric.

        Returns
        -------
        dict of int to str
            Numbers of the eliminated candidates, each with the first reason.
        """
        reasons: dict[int, str] = {}
        for name, table in values.items():
            defined = np.isfinite(table).all(axis=0)
            blocks = table[:, defined]
            if not blocks.shape[1]:
                continue
            means, deviations = blocks.mean(axis=1), blocks.std(axis=1, ddof=1 if blocks.shape[1] > 1 else 0)
            costs = -means if larger_is_better[name] else means
            best = int(costs.argmin())
            median = float(np.median(deviations))
            limit = costs[best] + self.errors * median / np.sqrt(blocks.shape[1])
            for number in range(len(table)):
                if costs[number] > limit:
                    reason = f"{name} {means[number]:.4g}, and the best has {means[best]:.4g}"
                elif median > 0 and deviations[number] > self.spread * median:
                    reason = f"{name} varies by {deviations[number]:.4g}, and by {median:.4g} in the median"
                else:
                    continue
                reasons.setdefault(number, reason)
        return reasons
