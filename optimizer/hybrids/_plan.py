"""Plan of an epoch of fewer configurations than workers: hopping, all-reduce or averaging of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import whole
from optimizer.notebook import ExplainedInNotebooks

if TYPE_CHECKING:
    from optimizer.hybrids._measured import Measured

__all__ = ["HybridPlan", "plan_hybrid"]

_WORDS = {
    "hop": "hopping: {configurations} of {workers} workers train at a time, {steps:,} steps one after the other",
    "all_reduce": "all-reduce: all workers take {steps:,} steps together, {gradient} exchanged in each",
    "averaging": "averaging: each worker trains its rows, and {state} are averaged at the end of the epoch",
}

# Share of the time of hopping that a hybrid has to save: measurements of a few steps differ by as much.
_MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class HybridPlan(ExplainedInNotebooks):
    """Predicted seconds of an epoch of all configurations, by the way to train them.

    Parameters
    ----------
    configurations, workers : int
        Number of configurations left to train, and of workers.
    rows, partitions : int
        Number of training rows, and of shards.
    measured : Measured
        Times that the prediction follows from.
    seconds : tuple of (str, float)
        Seconds of an epoch of all configurations, for each allowed way: ``"hop"``, ``"all_reduce"``, ``"averaging"``.
    mode : str
        The chosen way.
    """

    configurations: int
    workers: int
    rows: int
    partitions: int
    measured: Measured
    seconds: tuple[tuple[str, float], ...]
    mode: str

    def explain(self) -> str:
        """Describe the plan.

        Examples
        --------
        >>> from optimizer.hybrids import Measured
        >>> measured = Measured(64, 32, 0.010, 0.006, 4_000_000, 12_000_000, 0.001, 0.0005, 2)
        >>> plan = plan_hybrid(measured, configurations=1, workers=2, rows=64_000, partitions=2)
        >>> print(plan.explain())
        1 configuration on 2 workers: all_reduce, 0.70 of the time of hopping
          hop          10.0 s an epoch, hopping: 1 of 2 workers train at a time, 1,000 steps one after the other
          all_reduce    7.0 s an epoch, all-reduce: all workers take 1,000 steps together, 4.0 MB exchanged in each
          measured: 10.0 ms for 64 rows, 6.0 ms for 32; 8,000 MB/s and 0.50 ms for an all-reduce
        """
        times, measured = dict(self.seconds), self.measured
        noun = "configuration" if self.configurations == 1 else "configurations"
        gain = f", {times[self.mode] / times['hop']:.2f} of the time of hopping" if self.mode != "hop" else ""
        facts = {
            "configurations": self.configurations,
            "workers": self.workers,
            "steps": -(-self.rows // measured.batch_rows),
            "gradient": f"{measured.gradient_bytes / 1e6:.1f} MB",
            "state": f"{measured.state_bytes / 1e6:.1f} MB",
        }
        return "\n".join(
            [
                f"{self.configurations} {noun} on {self.workers} workers: {self.mode}{gain}",
                *(f"  {mode:10} {each:6.1f} s an epoch, {_WORDS[mode].format(**facts)}" for mode, each in self.seconds),
                measured.explain(),
            ]
        )


def plan_hybrid(
    measured: Measured,
    *,
    configurations: int,
    workers: int,
    rows: int,
    partitions: int,
    averages: bool = False,
) -> HybridPlan:
    """Choose the fastest way to train an epoch of configurations of the measured kind.

    Hopping trains ``min(configurations, workers)`` of them at a time, each on one worker and shard after the other. A
    hybrid trains one after the other on all workers: in all-reduce, each step has the rows of a whole batch, divided
    among the workers; in averaging, each worker takes steps of a whole batch on its rows. A hybrid is chosen if it
    saves at least 5% of the time of hopping.

    Parameters
    ----------
    measured : Measured
        Measured times of one configuration.
    configurations, workers, rows, partitions : int
        Number of configurations, workers, training rows and shards.
    averages : bool
        Whether weights may be averaged, which trains another model. Default ``False``.

    Raises
    ------
    InvalidArgumentError
        A number is not positive.

    Examples
    --------
    >>> from optimizer.hybrids import Measured
    >>> slow_network = Measured(64, 32, 0.010, 0.006, 4_000_000, 12_000_000, 0.1, 0.001, 2)
    >>> plan_hybrid(slow_network, configurations=1, workers=2, rows=64_000, partitions=2).mode
    'hop'
    """
    for name, value in (
        ("configurations", configurations),
        ("workers", workers),
        ("rows", rows),
        ("partitions", partitions),
    ):
        whole(name, value)
    batch = measured.batch_rows
    steps = -(-rows // batch)
    transfer = measured.state_bytes / measured.bandwidth
    # Units of one configuration run one after the other, and so do those on one worker.
    longest = max(partitions, -(-configurations * partitions // workers))
    predicted = {
        "hop": longest * (steps / partitions * measured.step_s(batch) + transfer),
        "all_reduce": configurations
        * (
            steps * (measured.step_s(batch / workers) + measured.all_reduce_s(measured.gradient_bytes, workers))
            + transfer
        ),
        "averaging": configurations
        * (
            -(-steps // workers) * measured.step_s(batch)
            + measured.all_reduce_s(measured.state_bytes, workers)
            + transfer
        ),
    }
    seconds = {mode: each for mode, each in predicted.items() if averages or mode != "averaging"}
    mode = min(seconds, key=lambda name: seconds[name] / (1.0 if name == "hop" else 1 - _MARGIN))
    return HybridPlan(configurations, workers, rows, partitions, measured, tuple(seconds.items()), mode)
