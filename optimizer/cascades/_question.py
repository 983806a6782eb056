"""Question that a calibration answers: metric, target, and the probability of error."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.arguments import one_of, real
from optimizer.cascades._metrics import METRICS
from optimizer.errors import InvalidArgumentError

__all__ = ["Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """Target of a metric relative to the oracle, to hold with a probability of ``1 - delta``.

    Parameters
    ----------
    target : float
        Least value of the metric, above 0 and below 1.
    delta : float
        Probability that the metric is below the target, above 0 and below 1. Default 0.05.
    metric : {"accuracy", "precision", "recall"}
        Metric relative to the oracle. Default ``"accuracy"``.
    positive : int
        Place of the class that precision and recall count. Default 1.

    Raises
    ------
    InvalidArgumentError
        A value is out of its range.

    Examples
    --------
    >>> Question(0.98).explain()
    'accuracy >= 0.98 relative to the oracle, with a probability of at least 0.95'
    """

    target: float
    delta: float = 0.05
    metric: str = "accuracy"
    positive: int = 1

    def __post_init__(self) -> None:
        for name, value in (("target", self.target), ("delta", self.delta)):
            if not 0 < real(name, value, 0, 1, above=True) < 1:
                raise InvalidArgumentError(f"{name} must be a number above 0 and below 1, got {value!r}.")
        one_of("metric", self.metric, METRICS)

    def explain(self) -> str:
        """Describe the target."""
        return (
            f"{self.metric} >= {self.target:g} relative to the oracle, with a probability of at least "
            f"{1 - self.delta:g}"
        )
