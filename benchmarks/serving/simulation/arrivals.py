"""Arrivals of requests, drawn by a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from optimizer.arguments import one_of, real, whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Arrivals", "arrival_times"]

Arrivals = Literal["poisson", "uniform"]


def arrival_times(
    rate: float | Sequence[tuple[float, float]], seconds: float, kind: Arrivals = "poisson", seed: int = 0
) -> NDArray[np.float64]:
    """Draw the times at which requests arrive.

    Parameters
    ----------
    rate : float or sequence of (float, float)
        Requests per second; or pairs of a second and the rate from then on, the first pair from second 0.
    seconds : float
    kind : {"poisson", "uniform"}
        Independent arrivals (default), or equal distances.
    seed : int

    Returns
    -------
    array of shape (requests,)
        Milliseconds, ascending.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Examples
    --------
    >>> arrival_times(100, 0.05, "uniform").tolist()
    [0.0, 10.0, 20.0, 30.0, 40.0]
    >>> len(arrival_times([(0, 100), (10, 500)], 20, "uniform"))
    6000
    """
    real("seconds", seconds, 0, above=True)
    one_of("kind", kind, ("poisson", "uniform"))
    rng = np.random.default_rng(whole("seed", seed, 0))
    steps = [(0.0, rate)] if isinstance(rate, int | float) else [(float(start), level) for start, level in rate]
    if not steps or steps[0][0] != 0:
        raise InvalidArgumentError(f"rate={rate!r}: pairs of a second and a rate, the first from second 0")
    ends = [start for start, _ in steps[1:]] + [seconds]
    times = []
    for (start, level), end in zip(steps, ends, strict=True):
        real("rate", level, 0)
        if end < start:
            raise InvalidArgumentError(f"rate={rate!r}: seconds that rise, up to {seconds:g}")
        if kind == "uniform":
            count = int(np.ceil((end - start) * level - 1e-9))
            times.append(1000 * (start + np.arange(count) / max(level, 1e-300)))
        else:
            # Given their number, arrivals of a Poisson process are independent and uniform.
            count = int(rng.poisson((end - start) * level))
            times.append(np.sort(rng.uniform(1000 * start, 1000 * end, count)))
    return np.concatenate(times)
