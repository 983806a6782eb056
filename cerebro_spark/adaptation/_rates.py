"""What a cycle costs: rates that are measured once and refitted after each cycle, and seconds predicted from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._passes import units_of
from optimizer.adaptation import Costs
from udfs.documents import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.adaptation._materialise import Materialised
    from cerebro_spark.hopper import Event
    from optimizer.adaptation import AdaptationPlan, Group

__all__ = ["CycleCosts", "Rates", "Seconds", "Work", "predicted_training", "work_of"]

# A plan whose seconds are further off than this is made again, with the rates of the cycle that it was for.
_OFF = 0.25


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a worker is while the others are at work too.

    Parameters
    ----------
    frozen, learning : float
        FLOPs a second of frozen layers, and of what learns: forward pass, backward pass and the optimizer's step.
    cold, warm : float
        Bytes a second of stored layers in the first epoch, when they come from the disk and are compared with their
        digests, and in the others.

    Examples
    --------
    The planner has one rate of reading. Of three epochs one is cold:

    >>> Rates(frozen=1e9, learning=5e8, cold=1e6, warm=4e6).costs(epochs=3)
    Costs(flops_per_second=1000000000.0, bytes_per_second=2000000.0)
    """

    frozen: float
    learning: float
    cold: float
    warm: float

    @classmethod
    def of(cls, costs: Costs) -> Rates:
        """Take rates that a user gives."""
        flops, nbytes = float(costs.flops_per_second), float(costs.bytes_per_second)
        return cls(frozen=flops, learning=flops, cold=nbytes, warm=nbytes)

    def costs(self, epochs: float) -> Costs:
        """Return what the planner takes for models that train so many epochs."""
        return Costs(flops_per_second=self.frozen, bytes_per_second=epochs / self.read_seconds(1, epochs))

    def read_seconds(self, nbytes: float, epochs: float) -> float:
        """Give the seconds that it takes to read so many bytes in each of some epochs, at least one."""
        return nbytes * (1 / self.cold + max(0.0, epochs - 1) / self.warm)

    def refitted(self, work: Work) -> Rates:
        """Return the rates that a cycle measured; a rate of what it did not do stays."""
        return Rates(
            frozen=_rate(work.frozen_flops, work.frozen_seconds, self.frozen),
            learning=_rate(work.learning_flops, work.learning_seconds, self.learning),
            cold=_rate(work.cold_bytes, work.cold_seconds, self.cold),
            warm=_rate(work.warm_bytes, work.warm_seconds, self.warm),
        )

    def __str__(self) -> str:
        """Write them for people."""
        return (
            f"frozen layers {self.frozen / 1e9:,.3g} GFLOP/s, what learns {self.learning / 1e9:,.3g} GFLOP/s, "
            f"reading {self.cold / 1e6:,.3g} MB/s cold, {self.warm / 1e6:,.3g} MB/s warm"
        )


def _rate(amount: float, seconds: float, before: float) -> float:
    return amount / seconds if amount > 0 and seconds > 0 else before


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds of a cycle in which all workers are at work, without opening the models, hops and evaluation.

    Parameters
    ----------
    materialising : float
        Of running frozen layers over new records, and of writing their outputs.
    training : float
        The makespan: no less than the mean of the workers, nor than any group, for a group visits them in turn.
    """

    materialising: float
    training: float

    @property
    def total(self) -> float:
        """Both."""
        return self.materialising + self.training

    def __str__(self) -> str:
        """Write them for people."""
        return f"{self.materialising:,.2f} s materialising + {self.training:,.2f} s training"


@dataclass(frozen=True, slots=True)
class CycleCosts:
    """What was predicted of a cycle, and what came of it.

    Parameters
    ----------
    rates : Rates
        That it was planned with.
    predicted : Seconds
    fitted : Rates, optional
        Those that the cycle measured. None until it is over.
    measured : Seconds, optional
    given : bool
        Whether the rates are the user's, which stay. Default false.
    """

    rates: Rates
    predicted: Seconds
    fitted: Rates | None = None
    measured: Seconds | None = None
    given: bool = False

    def over(self, fitted: Rates, measured: Seconds) -> CycleCosts:
        """Note what a cycle measured."""
        return replace(self, fitted=fitted, measured=measured)

    @property
    def off(self) -> float:
        """How far off the plan was, as a share of the smaller of both; 0 until the cycle is over."""
        if self.measured is None:
            return 0.0
        low, high = sorted((self.measured.total, self.predicted.total))
        return high / low - 1 if low > 0 else 0.0

    @property
    def is_off(self) -> bool:
        """Whether the plan was so far off that the next one is made with other rates."""
        return self.off > _OFF

    @property
    def next(self) -> Rates:
        """The rates to plan the next cycle with, unless the user gives some."""
        return self.fitted if self.fitted is not None and (self.is_off or self.given) else self.rates

    @property
    def lines(self) -> tuple[str, ...]:
        """Describe it for people."""
        lines = [f"predicted: {self.predicted}"]
        if self.measured is not None:
            lines += [f"measured: {self.measured}", f"measured rates: {self.fitted}"]
        if self.is_off:
            other = "costs= says otherwise" if self.given else "the next one is made with the measured rates"
            lines.append(f"note: the plan was {self.off:.0%} off: {other}")
        return tuple(lines)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> CycleCosts:
        """Read what :func:`dataclasses.asdict` gave of one."""
        fitted, measured = found["fitted"], found["measured"]
        return cls(
            rates=_rates(typed(found, "rates", dict)),
            predicted=_seconds(typed(found, "predicted", dict)),
            fitted=None if fitted is None else _rates(fitted),
            measured=None if measured is None else _seconds(measured),
            given=typed(found, "given", bool),
        )


def _rates(found: Mapping[str, Any]) -> Rates:
    return Rates(*(typed(found, name, float) for name in ("frozen", "learning", "cold", "warm")))


def _seconds(found: Mapping[str, Any]) -> Seconds:
    return Seconds(*(typed(found, name, float) for name in ("materialising", "training")))


@dataclass(frozen=True, slots=True)
class Work:
    """What a cycle did, for the rates: FLOPs and bytes, and the seconds of the workers for each.

    Parameters
    ----------
    frozen_flops, learning_flops, cold_bytes, warm_bytes : float
    frozen_seconds, learning_seconds, cold_seconds, warm_seconds : float
    measured : Seconds
    """

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
    """Predict the makespan of training on some records, in seconds.

    Parameters
    ----------
    plan : AdaptationPlan
        For the epochs that the candidates train; made for other records.
    rates : Rates
    rows : int
        That are trained on.
    """
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
    """Sum up what a cycle did.

    Parameters
    ----------
    events : sequence of Event
        Of its run, in their order.
    done : Materialised
    workers : int
    rows : callable
        Rows of a partition that is trained on.
    learning_flops : callable
        FLOPs of a step of a trial in an epoch, without frozen layers, for one record.
    frozen_flops : callable
        FLOPs of the frozen layers that run where some trials train together in an epoch, for one record.
    copies : int
        Of each record, one of which an epoch reads: so many first epochs find nothing in memory. Default 1.
    """
    frozen, learning = float(done.flops), 0.0
    frozen_seconds, learning_seconds, total = done.busy_seconds, 0.0, 0.0
    cold, warm = [0.0, 0.0], [0.0, 0.0]
    of_trial: dict[str, float] = {}
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
            of_trial[event.trial_id] = of_trial.get(event.trial_id, 0.0) + seconds
            of_reading = cold if event.epoch < copies else warm
            of_reading[0] += event.read_bytes
            of_reading[1] += event.read_seconds
    return Work(
        frozen,
        frozen_seconds,
        learning,
        learning_seconds,
        cold[0],
        cold[1],
        warm[0],
        warm[1],
        Seconds(done.busy_seconds / workers, max(total / workers, *of_trial.values(), 0.0)),
    )
