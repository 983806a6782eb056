"""Plan of a search before it runs: stages, epochs, times and costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.notebook import ExplainedInNotebooks
from optimizer.procedures._limits import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Offer", "Plan", "Stage"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Part of a plan in which a number of configurations trains the same number of epochs.

    Parameters
    ----------
    name : str
        Name of the stage, such as ``"bracket 2, rung 0"``.
    epochs : int
        Epochs that each configuration trains in this stage.
    reaches : int
        Total epochs of each configuration after the stage, along its lineage.
    """

    name: str
    configurations: int
    epochs: int
    reaches: int


@dataclass(frozen=True, slots=True)
class Offer:
    """Time and cost of a search on a number of workers.

    Parameters
    ----------
    cost : float or None
        Workers x hours x price; None without a price.
    expected_seconds, expected_cost : float or None
        Expected time and cost on spot machines with interruptions; None without :class:`Spot`, and infinite where
        interruptions come faster than units end.
    interruptions : float or None
        Expected number of interruptions of all workers.
    """

    workers: int
    seconds: float
    cost: float | None = None
    expected_seconds: float | None = None
    expected_cost: float | None = None
    interruptions: float | None = None

    def __str__(self) -> str:
        cost = "" if self.cost is None else f", {self.cost:.6g}"
        text = f"{self.workers} worker{'s' * (self.workers > 1)}: {self.seconds:.6g} s{cost}"
        if self.expected_seconds is None:
            return text
        return (
            f"{text}; on spot machines {self.expected_seconds:.6g} s, {self.expected_cost:.6g} expected, with "
            f"{self.interruptions:.3g} interruptions"
        )


@dataclass(frozen=True, slots=True)
class Plan(ExplainedInNotebooks):
    """Stages of a search with their configurations and epochs.

    Parameters
    ----------
    stages : tuple of Stage
        Stages in order; empty where the number of configurations is open.
    epochs_each : int
        Most epochs of one configuration, along its lineage.
    chain : int
        Fewest epochs that have to run one after the other, with any number of workers.
    configurations : int or None
        Number of configurations; None where it is open.
    clones : int or None
        Most configurations that are started as clones of others; None where the number is open.
    most_epochs : int or None
        Most epochs in all, clones included; None where the number is open. The stages have the expected ones.
    concurrency : int or None
        Most configurations that train at the same time; None is no limit.
    notes : tuple of str
        Sentences for :meth:`explain`.
    offers : tuple of Offer
        Times and costs by number of workers, where the seconds of a unit are known.
    """

    procedure: str
    stages: tuple[Stage, ...]
    epochs_each: int
    chain: int
    configurations: int | None
    clones: int | None
    most_epochs: int | None
    concurrency: int | None = None
    limits: Limits = field(default_factory=Limits)
    notes: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()

    @property
    def epochs(self) -> int | None:
        """Expected epochs in all, up to the limit; None where the number is open."""
        most = self.limits.max_total_epochs
        if not self.stages:
            return most
        planned = sum(stage.configurations * stage.epochs for stage in self.stages)
        return planned if most is None else min(planned, most)

    def units(self, partitions: int) -> int | None:
        """Count training units: one per epoch and partition."""
        whole("partitions", partitions)
        return None if self.epochs is None else self.epochs * partitions

    def seconds(self, unit_seconds: float, *, workers: int, partitions: int | None = None) -> float | None:
        """Compute a lower bound of the time: the mean work of a worker, or the longest chain of epochs.

        Parameters
        ----------
        unit_seconds : float
            Seconds of one configuration over one partition.
        partitions : int, optional
            Number of partitions; by default one per worker. More workers than partitions do not help.

        Returns
        -------
        float or None
            None where the number of epochs is open.

        Raises
        ------
        InvalidArgumentError
            A value that is not positive.
        """
        unit_seconds = real("unit_seconds", unit_seconds, 0, above=True)
        whole("workers", workers)
        count = workers if partitions is None else whole("partitions", partitions)
        units = self.units(count)
        if units is None or self.epochs is None:
            return None
        at_once = min(workers, count, *(() if self.concurrency is None else (self.concurrency,)))
        return unit_seconds * max(units / at_once, min(self.chain, self.epochs) * count)

    def front(
        self, unit_seconds: float, *, partitions: int, price: float, workers: Sequence[int] = ()
    ) -> tuple[Offer, ...]:
        """List the Pareto-optimal numbers of workers by time and cost.

        Parameters
        ----------
        price : float
            Cost per worker-hour.
        workers : sequence of int
            Numbers of workers to compare; by default from 1 to the number of partitions.

        Returns
        -------
        tuple of Offer
            Offers, the cheapest first; empty where the number of epochs is open. Costs that differ only by rounding are
            equal.

        Raises
        ------
        InvalidArgumentError
            A value that is not allowed.
        """
        price = real("price", price, 0)
        offers = [
            (offer.seconds, offer.workers, offer.workers * offer.seconds / 3600 * price)
            for offer in self.times(unit_seconds, partitions=partitions, workers=workers)
        ]
        worth: list[Offer] = []
        least = math.inf
        for seconds, count, cost in sorted(offers):
            if cost < least * (1 - 1e-9) or not worth:
                worth.append(Offer(count, seconds, cost))
                least = cost
        return tuple(reversed(worth))

    def times(self, unit_seconds: float, *, partitions: int, workers: Sequence[int] = ()) -> tuple[Offer, ...]:
        """List the times by number of workers, without costs.

        Parameters
        ----------
        workers : sequence of int
            Numbers of workers; by default from 1 to the number of partitions.

        Returns
        -------
        tuple of Offer
            Offers in the order of ``workers``; empty where the number of epochs is open.

        Raises
        ------
        InvalidArgumentError
            A value that is not allowed.
        """
        if isinstance(workers, (str, int)):
            raise InvalidArgumentError(f"workers must be a sequence of numbers, such as (1, 2, 4), got {workers!r}")
        offers = []
        for count in workers or range(1, whole("partitions", partitions) + 1):
            seconds = self.seconds(unit_seconds, workers=count, partitions=partitions)
            if seconds is not None:
                offers.append(Offer(count, seconds))
        return tuple(offers)

    def explain(self) -> str:
        """Describe the plan: a line for the whole, a line per stage, and notes."""
        return str(self)

    def __str__(self) -> str:
        count = "any number of" if self.configurations is None else f"{self.configurations:,}"
        clones = "" if self.clones == 0 else f" and {'' if self.clones is None else f'{self.clones:,} '}clones"
        epochs = "any number of epochs" if self.epochs is None else f"{self.epochs:,} epochs"
        lines = [f"{self.procedure}: {count} configurations{clones}, {epochs} in all, at most {self.epochs_each} each"]
        lines += [
            f"  {stage.name}: {stage.configurations:,} x {stage.epochs} epochs, up to epoch {stage.reaches}"
            for stage in self.stages
        ]
        if self.concurrency is not None:
            lines.append(f"  at most {self.concurrency} at the same time")
        if self.limits.max_configurations is not None:
            lines.append(f"  ends with {self.limits.max_configurations:,} configurations")
        if self.limits.max_total_epochs is not None:
            lines.append(f"  ends with {self.limits.max_total_epochs:,} epochs")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join([*lines, *(f"  at least, with {offer}" for offer in self.offers)])
