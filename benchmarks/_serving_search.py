"""The highest rate that is good: searched alike on a server and in simulated time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.serving import arrival_times, plan, simulate, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.serving import Backend, Session

__all__ = ["GOOD", "highest", "simulated_highest"]

GOOD = 0.99
"""Part of the requests that has to be in time."""

_STEP = 1.25
_MOST_STEPS = 24
_SIMULATED_S = 60.0


def highest(good: Callable[[float], bool], guess: float, precision: float = 0.05) -> float:
    """Search the highest rate at which something is good: by steps of a quarter, then by halving the last one.

    Parameters
    ----------
    good : callable
        Tries a rate.
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
        if good(rate):
            low = rate
            if high:
                break
            rate *= _STEP
        else:
            high = rate
            if low:
                break
            rate /= _STEP
    while low and high > low * (1 + precision):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if good(middle) else (low, middle)
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

    def good(rate: float) -> bool:
        traffic = {session.name: arrival_times(rate, _SIMULATED_S, seed=seed)}
        return simulate(live, traffic=traffic).good_rate >= GOOD

    return highest(good, guess, 0.01)
