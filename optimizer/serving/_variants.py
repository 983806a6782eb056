"""Choice among variants of a session's model: shares of its requests by plan, and the variant of a batch by its queue.

The variants of a session are listed from the most accurate to the cheapest one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError
from optimizer.serving._errors import InfeasibleError
from optimizer.serving._planner import plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving._profile import BatchingProfile
    from optimizer.serving._session import Backend, Session

__all__ = ["Ladder", "ladder_shares", "meets_deadlines", "variant_shares", "with_shares"]

_ROUNDING = 1e-9

# Growth of the rates that shares are planned for, so that they need not change with each epoch.
_HEADROOM = 0.1

# Parts of the backends' time that shares are planned for: packing may need more time than the sum of all requests.
_PARTS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.2, 0.0)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Variants of a session's model, from the most accurate to the cheapest one.

    Parameters
    ----------
    names : tuple of str
        Names of the variants.
    accuracies : tuple of float
        Share of correct answers of each.
    profiles : tuple of BatchingProfile
        Batching profile of each.

    Raises
    ------
    InvalidArgumentError
        The arguments are empty or differ in length.
    """

    names: tuple[str, ...]
    accuracies: tuple[float, ...]
    profiles: tuple[BatchingProfile, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.names or not len(self.names) == len(self.accuracies) == len(self.profiles):
            raise InvalidArgumentError(
                f"names, accuracies and profiles must have the same length, at least 1, got {len(self.names)}, "
                f"{len(self.accuracies)} and {len(self.profiles)}."
            )

    def seconds(self, session: Session) -> tuple[float, ...]:
        """Return the backend-seconds per request of each variant, in the session's best batches."""
        return tuple(1 / replace(session, profile=profile).peak_rate for profile in self.profiles)

    def accuracy(self, shares: Sequence[float]) -> float:
        """Return the mean accuracy of answers by shares."""
        return sum(share * value for share, value in zip(shares, self.accuracies, strict=True))

    def mixed(self, session: Session, shares: Sequence[float]) -> Session:
        """Return the session with the mean latencies of batches by shares, and the memory of all variants."""
        used = [(share, profile) for share, profile in zip(shares, self.profiles, strict=True) if share > 0]
        largest = min(profile.max_batch for _, profile in used)
        sizes = {size for _, profile in used for size in profile.latency_ms if size <= largest} | {largest}
        latency = {size: sum(share * float(profile.latencies[size]) for share, profile in used) for size in sizes}
        memory = {
            size: sum(int(profile.memory[min(size, profile.max_batch)]) for profile in self.profiles) for size in sizes
        }
        slowest = max((profile for _, profile in used), key=lambda profile: profile.preprocess_ms)
        return replace(session, profile=replace(slowest, latency_ms=latency, deviation_ms={}, memory_bytes=memory))


def variant_shares(
    rates: Sequence[float],
    seconds: Sequence[Sequence[float]],
    accuracies: Sequence[Sequence[float]],
    capacity: float,
    limits: Sequence[float] | None = None,
) -> list[tuple[float, ...]]:
    """Choose the share of each session's requests on each variant, such that the most answers are correct.

    The linear program is that of the multiple-choice knapsack problem (Sinha and Zoltners, *The Multiple-Choice
    Knapsack Problem*, 1979): each session climbs the concave hull of its variants, and the steepest climbs of all
    sessions come first. So at most one session is between two variants, besides those at their limit.

    Parameters
    ----------
    rates : sequence of float
        Requests per second of each session.
    seconds, accuracies : sequence of sequence of float
        Backend-seconds per request and accuracy of each session's variants, the cheapest one last.
    capacity : float
        Backend-seconds per second of all sessions.
    limits : sequence of float, optional
        Backend-seconds per second of each session, by its budget. Default: no limit.

    Returns
    -------
    list of tuple of float
        Shares of each session's variants; all of the cheapest variant where nothing else fits.

    Examples
    --------
    >>> variant_shares([100.0], [(0.02, 0.005)], [(0.9, 0.8)], 1.25)
    [(0.5, 0.5)]
    """
    limits = [math.inf] * len(rates) if limits is None else limits
    shares = [[0.0] * (len(costs) - 1) + [1.0] for costs in seconds]
    used = [rate * costs[-1] for rate, costs in zip(rates, seconds, strict=True)]
    left = capacity - sum(used)
    climbs = [
        (gain, session, lower, upper)
        for session, (costs, values) in enumerate(zip(seconds, accuracies, strict=True))
        for gain, lower, upper in _climbs(costs, values)
    ]
    # A stable sort keeps the climbs of a session in order: their gains fall.
    for _, session, lower, upper in sorted(climbs, key=lambda climb: -climb[0]):
        step = rates[session] * (seconds[session][upper] - seconds[session][lower])
        room = min(left, limits[session] - used[session])
        part = min(1.0, room / step) if step > 0 else 1.0
        if part <= _ROUNDING or shares[session][lower] < 1:
            continue
        shares[session][upper], shares[session][lower] = part, 1.0 - part
        used[session] += part * step
        left -= part * step
    return [tuple(each) for each in shares]


def _climbs(costs: Sequence[float], values: Sequence[float]) -> list[tuple[float, int, int]]:
    """Return the edges of the upper hull from the cheapest variant on: gain per second, lower and upper variant."""
    edges: list[tuple[float, int, int]] = []
    lower = len(costs) - 1
    while True:
        better = [place for place in range(len(costs)) if values[place] > values[lower] + _ROUNDING]
        if not better:
            return edges
        gains = {
            place: (values[place] - values[lower]) / max(costs[place] - costs[lower], _ROUNDING) for place in better
        }
        upper = max(better, key=lambda place: (gains[place], values[place]))
        edges.append((gains[upper], lower, upper))
        lower = upper


def ladder_shares(
    sessions: Sequence[Session],
    ladders: Mapping[str, Ladder],
    backends: Sequence[Backend],
    limits: Mapping[str, float] | None = None,
    old: Mapping[str, tuple[float, ...]] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Choose the shares of the variants for which a plan on some backends exists, with a tenth of headroom.

    Shares change only if the old ones do not fit, or leave more than twice that headroom.

    Parameters
    ----------
    sessions : sequence of Session
        All sessions at their rates.
    ladders : mapping of str to Ladder
        Variants by session, for the sessions that have some.
    backends : sequence of Backend
        Available backends.
    limits : mapping of str to float, optional
        Backend-seconds per second that a session's budget allows.
    old : mapping of str to tuple of float, optional
        Shares until now.

    Returns
    -------
    dict of str to tuple of float
        Shares of the variants of each session in `ladders`; those of the cheapest variants if no plan exists.
    """
    most, chosen, least = (
        _fitting([each.at_rate(factor * each.rate) for each in sessions], ladders, backends, limits or {})
        for factor in (1.0, 1 + _HEADROOM, 1 + 2 * _HEADROOM)
    )
    for name, shares in (old or {}).items():
        if name in chosen and len(shares) == len(chosen[name]):
            low, high = (ladders[name].accuracy(each[name]) for each in (least, most))
            if low - _ROUNDING <= ladders[name].accuracy(shares) <= high + _ROUNDING:
                chosen[name] = shares
    return chosen


def _fitting(
    sessions: Sequence[Session],
    ladders: Mapping[str, Ladder],
    backends: Sequence[Backend],
    limits: Mapping[str, float],
) -> dict[str, tuple[float, ...]]:
    """Return the most accurate shares for which a plan exists."""
    seconds = [ladders[each.name].seconds(each) if each.name in ladders else (1 / each.peak_rate,) for each in sessions]
    accuracies = [ladders[each.name].accuracies if each.name in ladders else (1.0,) for each in sessions]
    bounds = [limits.get(each.name, math.inf) for each in sessions]
    rates = [each.rate for each in sessions]
    total = sum(backend.speed for backend in backends)
    for part in _PARTS:
        split = variant_shares(rates, seconds, accuracies, part * total, bounds)
        shares = {each.name: share for each, share in zip(sessions, split, strict=True) if each.name in ladders}
        try:
            plan(with_shares(sessions, ladders, shares), backends)
        except InfeasibleError:
            continue
        break
    return shares


def with_shares(
    sessions: Sequence[Session], ladders: Mapping[str, Ladder], shares: Mapping[str, tuple[float, ...]]
) -> list[Session]:
    """Return the sessions that a planner gets: those with variants have the mean latencies of these by shares.

    Parameters
    ----------
    sessions : sequence of Session
        All sessions at their rates.
    ladders : mapping of str to Ladder
        Variants by session, for the sessions that have some.
    shares : mapping of str to tuple of float
        Shares of the variants of each session in `ladders`.
    """
    return [
        ladders[session.name].mixed(session, shares[session.name]) if session.name in ladders else session
        for session in sessions
    ]


def meets_deadlines(
    deadlines_ms: Sequence[float], start_ms: float, latencies_ms: Sequence[float], batch: int, between_ms: float = 0.0
) -> bool:
    """Return whether all requests of a queue are in time, in batches that run one after the other.

    Parameters
    ----------
    deadlines_ms : sequence of float
        Ascending deadlines, in milliseconds of any clock.
    start_ms : float
        Time at which the backend is free, in milliseconds of the same clock.
    latencies_ms : sequence of float
        Milliseconds by batch size, from 0 on.
    batch : int
        Largest batch.
    between_ms : float
        Milliseconds of other sessions before each batch. Default 0.

    Examples
    --------
    >>> meets_deadlines([5.0, 9.0, 9.0], 1.0, [0, 3, 4], 2), meets_deadlines([5.0, 9.0, 9.0], 2.0, [0, 3, 4], 2)
    (True, False)
    """
    count = len(deadlines_ms)
    for place in range(0, count, batch):
        start_ms += between_ms + latencies_ms[min(batch, count - place)]
        if start_ms > deadlines_ms[place]:
            return False
    return True
