"""Spot machines: expected time and cost of a search whose workers are interrupted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.arguments import real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._plan import Offer

__all__ = ["CostOption", "Spot", "cost_front"]

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Spot:
    r"""Machines that are cheap and may be interrupted, for :meth:`cerebro_spark.Search.plan`.

    Interruptions of a worker that trains are a Poisson process. After a notice, the worker ends its unit if it can
    within the grace period, and hands over its states; otherwise the unit is trained again. Then the worker is away for
    ``restart_s``. All finished units count, because states are checkpointed after each visit, or handed over. With the
    rate :math:`\lambda`, the unit time :math:`u` and the grace period :math:`g`, the expected loss is

    .. math:: L = (u^2 - g^2) / 2u \text{ for } g < u \text{, and 0 otherwise}

    which is half of the checkpoint interval :math:`u` without a grace period, as in Young's and Daly's models. The
    share of a worker's time that is useful is :math:`(1 - \lambda L) / (1 + \lambda R)`, with the restart time
    :math:`R`. As other workers train meanwhile, the time of the search is divided by this share.

    Parameters
    ----------
    price : float
        Cost of an interruptible worker per hour, restarts included, in the currency of the other prices.
    interruptions_per_hour : float
        Mean number of interruptions of a worker in an hour.
    grace_s : float
        Seconds between the notice and the end of the machine. Default 30.
    restart_s : float
        Seconds from the last unit of a machine until its successor trains. Default 120.

    Raises
    ------
    InvalidArgumentError
        A number is negative or not finite.

    References
    ----------
    Young: A first order approximation to the optimum checkpoint interval, CACM 1974. Daly: A higher order estimate of
    the optimum checkpoint interval for restart dumps, FGCS 2006. Cerebro, section 4.3.4.

    Examples
    --------
    >>> spot = Spot(price=0.3, interruptions_per_hour=0.5, grace_s=0.0, restart_s=360.0)
    >>> spot.lost_seconds(60.0)
    30.0
    >>> round(spot.useful_share(60.0), 4)
    0.9484
    """

    price: float
    interruptions_per_hour: float
    grace_s: float = 30.0
    restart_s: float = 120.0

    def __post_init__(self) -> None:
        for name in ("price", "interruptions_per_hour", "grace_s", "restart_s"):
            real(name, getattr(self, name), 0)

    def lost_seconds(self, unit_seconds: float) -> float:
        """Compute the expected loss of training per interruption.

        Parameters
        ----------
        unit_seconds : float
            Seconds of one configuration over one shard.

        Returns
        -------
        float
            Seconds of training for nothing, up to the end of the grace period.

        Raises
        ------
        InvalidArgumentError
            The time is not positive.
        """
        unit = real("unit_seconds", unit_seconds, 0, above=True)
        return max(0.0, unit**2 - self.grace_s**2) / (2 * unit)

    def useful_share(self, unit_seconds: float) -> float:
        """Compute the share of a worker's time that trains and is not lost.

        Returns
        -------
        float
            Between 0 and 1; 0 where each interruption loses as much as is trained between two.

        Raises
        ------
        InvalidArgumentError
            The time is not positive.
        """
        lost = self.lost_seconds(unit_seconds) * self.interruptions_per_hour / _HOUR_S
        return max(0.0, 1 - lost) * self._present_share

    @property
    def _present_share(self) -> float:
        """Share of the time in which a worker is there."""
        return 1 / (1 + self.interruptions_per_hour * self.restart_s / _HOUR_S)

    def priced(self, offers: Sequence[Offer], unit_seconds: float, price: float | None = None) -> tuple[Offer, ...]:
        """Add costs, and expected times and costs on these machines, to offers.

        Parameters
        ----------
        offers : sequence of Offer
            Offers with times.
        unit_seconds : float
            Seconds of one configuration over one shard.
        price : float, optional
            Cost per hour of a worker that is never interrupted. By default offers have no such cost.

        Returns
        -------
        tuple of Offer
            Offers in their order.

        Raises
        ------
        InvalidArgumentError
            A value is not allowed.
        """
        share = self.useful_share(unit_seconds)
        price = None if price is None else real("price", price, 0)
        priced = []
        for offer in offers:
            seconds = offer.seconds / share if share else math.inf
            hours = offer.workers * seconds / _HOUR_S
            priced.append(
                replace(
                    offer,
                    cost=None if price is None else offer.workers * offer.seconds / _HOUR_S * price,
                    expected_seconds=seconds,
                    expected_cost=hours * self.price,
                    interruptions=hours * self._present_share * self.interruptions_per_hour,
                )
            )
        return tuple(priced)


@dataclass(frozen=True, slots=True)
class CostOption:
    """Number of workers on one kind of machine.

    Parameters
    ----------
    kind : {"on demand", "spot"}
        Kind of the machines.
    workers : int
        Number of workers.
    seconds, cost : float
        Time and cost, expected ones on spot machines.
    """

    kind: str
    workers: int
    seconds: float
    cost: float


def cost_front(offers: Sequence[Offer]) -> tuple[CostOption, ...]:
    """List the options that no other option beats in time and cost, over both kinds of machines.

    Parameters
    ----------
    offers : sequence of Offer
        Offers with costs, expected costs, or both.

    Returns
    -------
    tuple of CostOption
        Pareto front, the fastest option first. Of equal options the smaller number of workers is listed.

    Examples
    --------
    >>> from optimizer.procedures import Offer
    >>> spot = Spot(price=0.25, interruptions_per_hour=1.0, grace_s=60.0, restart_s=360.0)
    >>> offers = spot.priced([Offer(1, 7200.0), Offer(2, 3600.0), Offer(3, 3600.0)], 60.0, price=1.0)
    >>> for option in cost_front(offers):
    ...     print(option.kind, option.workers, round(option.seconds), round(option.cost, 3))
    on demand 2 3600 2.0
    spot 2 3960 0.55
    """
    options = [
        CostOption(kind, offer.workers, seconds, cost)
        for offer in offers
        for kind, seconds, cost in (
            ("on demand", offer.seconds, offer.cost),
            ("spot", offer.expected_seconds, offer.expected_cost),
        )
        if seconds is not None and cost is not None and math.isfinite(seconds)
    ]
    front: list[CostOption] = []
    for option in sorted(options, key=lambda each: (each.seconds, each.cost, each.workers)):
        # Costs that differ only by rounding are equal.
        if not front or option.cost < front[-1].cost * (1 - 1e-9):
            front.append(option)
    return tuple(front)
