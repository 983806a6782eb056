"""Search for the highest good rate, on a server and in simulated time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.serving.simulation import arrival_times, simulate
from optimizer.serving import plan, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.serving import Backend, Session

__all__ = ["GOOD", "highest", "simulated_highest"]

GOOD = 0.99
"""Part of the requests that has to be in time."""

_STEP, _WIDEST = 1.25, 4.0
_MOST_STEPS = 24
_SIMULATED_S = 60.0


def highest(share: Callable[[float], float], guess: float, precision: float = 0.05) -> float:
    """Search the highest rate that is good: by steps of a quarter and more, then by halving the last one.

    Parameters
    ----------
    share : callable
        Tries a rate, and gives the part of the requests that was in time. What is in time at a rate that is too high
        says where to go on.
    guess : float
        Where to begin.
    precision : float
        The rate found and the lowest one that was bad differ by no more. Default 0.05.

    Returns
    -------
    float
        0 where no rate was good.
    """
    low, high = 0.0, 0.0
    rate = guess
    for _ in range(_MOST_STEPS):
        in_time = share(rate)
        if in_time >= GOOD:
            low = rate
            if high:
                break
            rate *= _STEP
        else:
            high = rate
            if low:
                break
            rate *= min(1 / _STEP, max(in_time, 1 / _WIDEST))
    while low and high > low * (1 + precision):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if share(middle) >= GOOD else (low, middle)
    return low


def simulated_highest(session: Session, backends: Sequence[Backend], guess: float, seed: int = 0) -> float:
    """Search the highest good rate of one session in simulated time, on backends that are planned as the server's are.

    Parameters
    ----------
    session : Session
        At a rate that the backends bear.
    backends : sequence of Backend
    guess : float
    seed : int
    """
    live = spread(plan([session], backends), backends)

    def share(rate: float) -> float:
        traffic = {session.name: arrival_times(rate, _SIMULATED_S, seed=seed)}
        return simulate(live, traffic=traffic).good_rate

    return highest(share, guess, 0.01)
