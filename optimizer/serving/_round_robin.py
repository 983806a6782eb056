"""Deficit round robin over backends (section 3.5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.arguments import real
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DeficitRoundRobin"]


class DeficitRoundRobin:
    """Choose the backend that lags most behind its planned share. The order repeats and is deterministic.

    ``weights`` are planned requests per second of each backend.

    Raises
    ------
    InvalidArgumentError
        There is no weight, or one is not above 0.

    Examples
    --------
    >>> balancer = DeficitRoundRobin([2, 1])
    >>> [balancer.choose(0.0) for _ in range(6)]
    [0, 1, 0, 0, 1, 0]
    """

    def __init__(self, weights: Sequence[float]) -> None:
        if not weights:
            raise InvalidArgumentError("weights must have at least one number, got [].")
        self.weights = [real("weights", weight, 0, above=True) for weight in weights]
        total = sum(self.weights)
        self._shares = [weight / total for weight in self.weights]
        self._credit = [0.0] * len(self._shares)

    def choose(self, now_ms: float) -> int:
        """Return the place of the next backend."""
        del now_ms
        credit = self._credit
        if len(credit) == 1:
            return 0
        chosen, most = 0, -2.0
        for place, share in enumerate(self._shares):
            credit[place] += share
            if credit[place] > most + 1e-12:
                chosen, most = place, credit[place]
        credit[chosen] -= 1.0
        return chosen
