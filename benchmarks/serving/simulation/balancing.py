"""Balancing policies of the simulator: the backend of a session's next request (section 3.5.3)."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from optimizer.arguments import one_of, real
from optimizer.errors import InvalidArgumentError
from optimizer.serving import DeficitRoundRobin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BALANCERS", "Balancer", "TwoChoices", "WeightedRandom", "balancer"]

# "centralized" has no balancer: a free backend takes its next batch from one common queue.
BALANCERS = ("deficit", "two choices", "weighted", "centralized")


class Balancer(Protocol):
    """A front end's choice of backends for one session.

    Attributes
    ----------
    weights : sequence of float
        Planned requests per second.
    """

    weights: Sequence[float]

    def choose(self, now_ms: float) -> int:
        """Choose the place of a backend in the routes."""
        ...


class WeightedRandom:
    """Draw a backend in proportion to its planned rate.

    Parameters
    ----------
    weights : sequence of float
        Planned requests per second.
    draw : callable
        Gives a number from 0 to 1, such as ``random.Random(7).random``.

    Examples
    --------
    >>> draws = iter([0.1, 0.74, 0.76])
    >>> balancer = WeightedRandom([3, 1], lambda: next(draws))
    >>> [balancer.choose(0.0) for _ in range(3)]
    [0, 0, 1]
    """

    def __init__(self, weights: Sequence[float], draw: Callable[[], float]) -> None:
        self.weights = _checked(weights)
        self._sums = list(accumulate(self.weights))
        self._draw = draw

    def choose(self, now_ms: float) -> int:
        """Draw one."""
        del now_ms
        return self.at(self._draw())

    def at(self, draw: float) -> int:
        """Find the backend of a number from 0 to 1."""
        return min(bisect_right(self._sums, draw * self._sums[-1]), len(self._sums) - 1)


class TwoChoices:
    """Draw two backends and take the one with the shorter queue, by lengths that are some milliseconds old.

    Parameters
    ----------
    weights : sequence of float
        Planned requests per second: a queue is short for the rate that its backend was given.
    draw : callable
        Gives a number from 0 to 1.
    lengths : callable
        Asks a backend, by its place, for its queue's length.
    cached_ms : float
        A length is asked again when it is older. Default 10.

    Examples
    --------
    >>> draws = iter([0.1, 0.9])
    >>> TwoChoices([1, 1], lambda: next(draws), [4, 2].__getitem__).choose(0.0)
    1
    """

    def __init__(
        self,
        weights: Sequence[float],
        draw: Callable[[], float],
        lengths: Callable[[int], int],
        cached_ms: float = 10.0,
    ) -> None:
        self.weights = _checked(weights)
        self._random = WeightedRandom(weights, draw)
        self._lengths = lengths
        self._cached_ms = real("cached_ms", cached_ms, 0)
        self._known = [(float("-inf"), 0)] * len(self.weights)

    def choose(self, now_ms: float) -> int:
        """Compare two."""
        first, second = self._random.choose(now_ms), self._random.choose(now_ms)
        if first == second:
            return first
        return min((first, second), key=lambda place: self._length(place, now_ms) / self.weights[place])

    def _length(self, place: int, now_ms: float) -> int:
        asked_ms, length = self._known[place]
        if now_ms - asked_ms > self._cached_ms:
            length = self._lengths(place)
            self._known[place] = now_ms, length
        return length


def balancer(
    name: str,
    weights: Sequence[float],
    draw: Callable[[], float],
    lengths: Callable[[int], int],
    cached_ms: float = 10.0,
) -> Balancer:
    """Make a balancer by its name; ``"centralized"`` has none.

    Raises
    ------
    InvalidArgumentError
        Another name, or a weight that is not above 0.
    """
    if one_of("balancing", name, BALANCERS) == "weighted":
        return WeightedRandom(weights, draw)
    if name == "two choices":
        return TwoChoices(weights, draw, lengths, cached_ms)
    return DeficitRoundRobin(weights)


def _checked(weights: Sequence[float]) -> Sequence[float]:
    if not weights:
        raise InvalidArgumentError("weights=[]: at least one backend")
    return [real("weights", weight, 0, above=True) for weight in weights]
