"""Costs of a cycle: rates that are measured and refitted, and seconds that they predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._trunk_passes import units_of
from optimizer.adaptation import Costs
from udfs.documents import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.adaptation._materialise import Materialised
    from cerebro_spark.hopper import Event
    from optimizer.adaptation import AdaptationPlan, Group

__all__ = ["CycleCosts", "Rates", "Seconds", "Work", "predicted_training", "work_of"]

# Relative error of predicted seconds above which the next plan uses the measured rates.
_OFF = 0.25


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a worker while all workers are busy.

    ``frozen`` and ``learning`` are FLOPs per second of frozen layers, and of trained ones with the backward pass and
    the optimizer's step. ``cold`` and ``warm`` are bytes per second of stored layers in the first epoch, which reads
    the disk and verifies digests, and in the others.

    Examples
    --------
    The planner has one rate of reading. One of three epochs is cold:

    >>> Rates(frozen=1e9, learning=5e8, cold=1e6, warm=4e6).costs(epochs=3)
    Costs(flops_per_second=1000000000.0, bytes_per_second=2000000.0)
    """

    frozen: float
    learning: float
    cold: float
    warm: float

    @classmethod
    def of(cls, costs: Costs) -> Rates:
        """Return the rates that a user sets."""
        flops, nbytes = float(costs.flops_per_second), float(costs.bytes_per_second)
        return cls(frozen=flops, learning=flops, cold=nbytes, warm=nbytes)

    def costs(self, epochs: float) -> Costs:
        """Return the planner's costs for models that train a number of epochs."""
        return Costs(flops_per_second=self.frozen, bytes_per_second=epochs / self.read_seconds(1, epochs))

    def read_seconds(self, nbytes: float, epochs: float) -> float:
        """Return the seconds of reading bytes in each of some epochs, at least one."""
        return nbytes * (1 / self.cold + max(0.0, epochs - 1) / self.warm)

    def refitted(self, work: Work) -> Rates:
        """Return the rates that a cycle measured; a rate without a measurement stays."""
        return Rates(
            frozen=_rate(work.frozen_flops, work.frozen_seconds, self.frozen),
            learning=_rate(work.learning_flops, work.learning_seconds, self.learning),
            cold=_rate(work.cold_bytes, work.cold_seconds, self.cold),
            warm=_rate(work.warm_bytes, work.warm_seconds, self.warm),
        )

    def __str__(self) -> str:
        """Format the values."""
        return (
            f"frozen layers {self.frozen / 1e9:,.3g} GFLOP/s, trained layers {self.learning / 1e9:,.3g} GFLOP/s, "
            f"reading {self.cold / 1e6:,.3g} MB/s cold, {self.warm / 1e6:,.3g} MB/s warm"
        )


def _rate(amount: float, seconds: float, before: float) -> float:
    return amount / seconds if amount > 0 and seconds > 0 else before


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds of a cycle in which the workers compute, without opening models, hops and evaluation.

    ``materialising`` includes writing the outputs. ``training`` is the makespan: the larger of the mean of the workers
    and of the longest group, which visits them in turn.
    """

    materialising: float
    training: float

    @property
    def total(self) -> float:
        """Sum of both."""
        return self.materialising + self.training

    def __str__(self) -> str:
        """Format the values."""
        return f"{self.materialising:,.2f} s materialising + {self.training:,.2f} s training"


@dataclass(frozen=True, slots=True)
class CycleCosts:
    """Predicted and measured costs of a cycle.

    ``fitted`` are the rates that the cycle measured, None until it is over. ``given`` rates are the user's and do not
    change.
    """

    rates: Rates
    predicted: Seconds
    fitted: Rates | None = None
    measured: Seconds | None = None
    given: bool = False

    def over(self, fitted: Rates, measured: Seconds) -> CycleCosts:
        """Return the costs with measured rates and seconds."""
        return replace(self, fitted=fitted, measured=measured)

    @property
    def off(self) -> float:
        """Relative error of the predicted seconds; 0 until the cycle is over."""
        if self.measured is None:
            return 0.0
        low, high = sorted((self.measured.total, self.predicted.total))
        return high / low - 1 if low > 0 else 0.0

    @property
    def is_off(self) -> bool:
        """True if the error is so large that the next plan uses the measured rates."""
        return self.off > _OFF

    @property
    def next(self) -> Rates:
        """Rates for the next plan, unless the user sets them."""
        return self.fitted if self.fitted is not None and (self.is_off or self.given) else self.rates

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of a description."""
        lines = [f"predicted: {self.predicted}"]
        if self.measured is not None:
            lines += [f"measured: {self.measured}", f"measured rates: {self.fitted}"]
        if self.is_off:
            other = "costs= says otherwise" if self.given else "the next one is made with the measured rates"
            lines.append(f"note: the plan was {self.off:.0%} off: {other}")
        return tuple(lines)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CycleCosts:
        """Read the result of :func:`dataclasses.asdict`."""
        fitted, measured = document["fitted"], document["measured"]
        return cls(
            rates=_rates(typed(document, "rates", dict)),
            predicted=_seconds(typed(document, "predicted", dict)),
            fitted=None if fitted is None else _rates(fitted),
            measured=None if measured is None else _seconds(measured),
            given=typed(document, "given", bool),
        )


def _rates(document: Mapping[str, Any]) -> Rates:
    return Rates(*(typed(document, name, float) for name in ("frozen", "learning", "cold", "warm")))


def _seconds(document: Mapping[str, Any]) -> Seconds:
    return Seconds(*(typed(document, name, float) for name in ("materialising", "training")))


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a cycle in FLOPs and bytes, with the seconds of the workers."""

    frozen_flops: float
    frozen_seconds: float
    learning_flops: float
    learning_seconds: float
    cold_bytes: float
    cold_seconds: float
    warm_bytes: float
    warm_seconds: float
    measured: Seconds


def predicted_training(plan: AdaptationPlan, rates: Rates, rows: int) -> float:
    """Predict the makespan of training on some records, in seconds."""
    groups = [_group_seconds(plan, group, rates, rows) for group in plan.groups]
    return max(sum(groups) / plan.workers, *groups)


def _group_seconds(plan: AdaptationPlan, group: Group, rates: Rates, rows: int) -> float:
    frozen = sum(phase.epochs * sum(plan.trunk[name].flops for name in phase.computes) for phase in group.phases)
    learning = group.compute_flops / plan.records - frozen
    epochs = sum(phase.epochs for phase in group.phases)
    nbytes = group.load_flops / plan.records * plan.costs.bytes_per_second / plan.costs.flops_per_second
    seconds = frozen / rates.frozen + learning / rates.learning
    return rows * (seconds + rates.read_seconds(nbytes / epochs, epochs))


def work_of(
    events: Sequence[Event],
    done: Materialised,
    workers: int,
    *,
    rows: Callable[[int], int],
    learning_flops: Callable[[str, int], int],
    frozen_flops: Callable[[Sequence[str], int], int],
    copies: int = 1,
) -> Work:
    """Sum up the work of a cycle.

    ``rows`` returns the training rows of a partition; ``learning_flops`` and ``frozen_flops`` return the FLOPs for one
    record of a trial's step without frozen layers, and of a group's frozen layers. ``copies`` of each record is the
    number of epochs with cold reads.
    """
    frozen, learning = float(done.flops), 0.0
    frozen_seconds, learning_seconds, total = done.busy_seconds, 0.0, 0.0
    cold, warm = [0.0, 0.0], [0.0, 0.0]
    trial_seconds: dict[str, float] = {}
    for unit in units_of(events):
        if unit[0].kind != "train":
            continue
        count = rows(unit[0].partition)
        members = [event.trial_id for event in unit]
        epoch = unit[0].epoch
        frozen += count * frozen_flops(members, epoch)
        learning += count * sum(learning_flops(member, epoch) for member in members)
        seconds = sum(event.seconds for event in unit)
        total += seconds
        for event in unit:
            frozen_seconds += event.frozen_seconds
            learning_seconds += event.seconds - event.frozen_seconds - event.waited_seconds
            trial_seconds[event.trial_id] = trial_seconds.get(event.trial_id, 0.0) + seconds
            reads = cold if event.epoch < copies else warm
            reads[0] += event.read_bytes
            reads[1] += event.read_seconds
    return Work(
        frozen,
        frozen_seconds,
        learning,
        learning_seconds,
        cold[0],
        cold[1],
        warm[0],
        warm[1],
        Seconds(done.busy_seconds / workers, max(total / workers, *trial_seconds.values(), 0.0)),
    )
