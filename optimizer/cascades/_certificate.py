"""Certificate of a cascade: what holds, with which probability, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.cascades._question import Question
from optimizer.notebook import ExplainedInNotebooks

__all__ = ["Certificate"]


@dataclass(frozen=True, slots=True)
class Certificate(ExplainedInNotebooks):
    """Guarantee of a calibrated cascade, and the measurements of its sample.

    Parameters
    ----------
    metric : str
        ``"accuracy"``, ``"precision"`` or ``"recall"``, relative to the oracle.
    target, delta : float
        Target of the metric, and the probability that the cascade misses it.
    bound : float
        Lower bound of the metric that holds with a probability of ``1 - delta``: the target, or 1 if the oracle answers
        all rows.
    estimate : float
        Metric on the rows of the sample whose answers are known.
    models : tuple of str
        Names of the models in the order in which they run; the oracle is last.
    thresholds : tuple of float or None
        Least confidence of an answer; ``None`` for the oracle and for proxies that are not used.
    shares : tuple of float
        Share of the sample that each model answers.
    seconds : tuple of float
        Time of a row per model, with decoding: measured on the sample unless the user states costs.
    sample_rows, oracle_calls : int
        Rows of the sample, and those that the oracle was asked.
    reason : str
        Reason why the oracle answers all rows; empty if proxies answer some.
    positive : int
        Place of the class that precision and recall count.

    Examples
    --------
    >>> certificate = Certificate(
    ...     "accuracy", 0.98, 0.05, 0.98, 0.991, ("proxy", "oracle"), (0.9, None), (0.75, 0.25), (0.001, 0.1), 2000, 400
    ... )
    >>> round(certificate.speedup, 2), certificate.is_met
    (3.85, True)
    >>> print(certificate.explain())
    accuracy >= 0.98 relative to the oracle, with a probability of at least 0.95 (0.9910 on the sample)
      proxy answers 75.0 % of rows, where its confidence is at least 0.9000; 1 ms a row
      oracle answers 25.0 % of rows; 100 ms a row
    26 ms a row instead of 100 ms: 3.85 times the throughput of the oracle, 74.0 % of the time saved
    The oracle was asked for 400 of 2,000 rows of the sample
    """

    metric: str
    target: float
    delta: float
    bound: float
    estimate: float
    models: tuple[str, ...]
    thresholds: tuple[float | None, ...]
    shares: tuple[float, ...]
    seconds: tuple[float, ...]
    sample_rows: int
    oracle_calls: int
    reason: str = ""
    positive: int = 1

    @property
    def is_met(self) -> bool:
        """True if proxies answer rows and the target holds; False if the oracle answers all rows."""
        return not self.reason

    @property
    def seconds_per_row(self) -> float:
        """Mean time of a row in the cascade."""
        reached, total = 1.0, 0.0
        for threshold, share, cost in zip(self.thresholds[:-1], self.shares, self.seconds, strict=False):
            total += 0.0 if threshold is None else reached * cost
            reached -= share
        return total + reached * self.seconds[-1]

    @property
    def speedup(self) -> float:
        """Time of a row in the oracle over its mean time in the cascade."""
        return self.seconds[-1] / self.seconds_per_row if self.seconds_per_row else 1.0

    def explain(self) -> str:
        """Describe the guarantee, the models and the time saved."""
        question = Question(self.target, self.delta, self.metric, self.positive)
        lines = [f"{question.explain()} ({self.estimate:.4f} on the sample)"]
        if self.reason:
            lines = [f"The oracle answers all rows: {self.reason}"]
        for name, threshold, share, cost in zip(self.models, self.thresholds, self.shares, self.seconds, strict=True):
            where = "" if threshold is None else f", where its confidence is at least {threshold:.4f}"
            lines.append(f"  {name} answers {share:.1%} of rows{where}; {_time(cost)} a row".replace("%", " %", 1))
        if not self.reason:
            saved = f"{1 - self.seconds_per_row / self.seconds[-1]:.1%}".replace("%", " %") if self.seconds[-1] else "0"
            lines.append(
                f"{_time(self.seconds_per_row)} a row instead of {_time(self.seconds[-1])}: {self.speedup:.2f} times "
                f"the throughput of the oracle, {saved} of the time saved"
            )
        lines.append(f"The oracle was asked for {self.oracle_calls:,} of {self.sample_rows:,} rows of the sample")
        return "\n".join(lines)


def _time(seconds: float) -> str:
    """Return a time with three digits and a unit."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
