"""Importance of hyperparameters: variance that a one-way split of the configurations explains."""

from __future__ import annotations

import json
import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from optimizer.steering._ranking import ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.steering._progress import Progress

__all__ = ["importances"]

_FEWEST = 4
_GROUPS = 10


def importances(progress: Progress) -> dict[str, float | None]:
    """Compute the importance of each hyperparameter for the best value of a configuration.

    The importance is the share of the variance between configurations that the hyperparameter explains by itself, the
    main effect of functional ANOVA [1]_. Configurations are split by the value of the hyperparameter; values of numbers
    with more than a few are split into groups of about equal size. The variance is that of the ranks of the best
    values, so that diverged configurations and the scale of the metric have no influence, and it is corrected for the
    number of groups: epsilon squared of the Kruskal-Wallis test [2]_. Interactions are not counted.

    Parameters
    ----------
    progress : Progress
        State of the experiment.

    Returns
    -------
    dict of str to float or None
        Importance from 0 to 1 by name, the largest first; None for a hyperparameter with one value, with a value of its
        own in each configuration that is not a number, or in fewer than 4 configurations.

    References
    ----------
    .. [1] Hutter, Hoos, Leyton-Brown: An Efficient Approach for Assessing Hyperparameter Importance. ICML 2014.
    .. [2] Kruskal, Wallis: Use of Ranks in One-Criterion Variance Analysis. JASA 47(260), 1952.

    Examples
    --------
    >>> from optimizer.steering import Configuration, Progress
    >>> tried = [(rate, units) for rate in (0.1, 0.01, 0.001) for units in (16, 64)]
    >>> progress = Progress(configurations={
    ...     f"c{place}": Configuration(f"c{place}", {"lr": lr, "units": units}, 1, history=[{"loss": lr + units / 1e6}])
    ...     for place, (lr, units) in enumerate(tried)
    ... })
    >>> importances(progress)
    {'lr': 0.8571428571428572, 'units': 0.0}
    """
    measured = ranked(progress)
    names = dict.fromkeys(name for configuration, _ in measured for name in configuration.params)
    explained: dict[str, float | None] = {}
    for name in names:
        pairs = [(each.params[name], value) for each, value in measured if name in each.params]
        explained[name] = _explained([setting for setting, _ in pairs], _ranks([value for _, value in pairs]))
    return dict(sorted(explained.items(), key=lambda pair: -1.0 if pair[1] is None else pair[1], reverse=True))


def _explained(settings: Sequence[Any], ranks: Sequence[float]) -> float | None:
    count, groups = len(ranks), _groups(settings)
    parts = [[ranks[place] for place in places] for places in groups]
    total = _squares(ranks)
    if count < _FEWEST or not 1 < len(parts) < count or not total:
        return None
    within = sum(_squares(part) for part in parts) / (count - len(parts))
    return max(0.0, 1 - within / (total / (count - 1)))


def _groups(settings: Sequence[Any]) -> list[list[int]]:
    """Split places by their values; numbers with many values into groups of about equal size."""
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in settings)
    keys = [value if numeric else json.dumps(value, sort_keys=True) for value in settings]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    groups = [list(places) for _, places in groupby(order, key=keys.__getitem__)]
    most = min(_GROUPS, max(2, math.isqrt(len(settings))))
    if not numeric or len(groups) <= max(most, len(settings) // 2):
        return groups
    size, joined = len(settings) / most, list[list[int]]()
    before = 0
    for places in groups:
        if not joined or before >= len(joined) * size:
            joined.append([])
        joined[-1] += places
        before += len(places)
    return joined


def _ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1; equal ones get their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, before = [0.0] * len(values), 0
    for _, group in groupby(order, key=values.__getitem__):
        places = list(group)
        for place in places:
            ranks[place] = before + (len(places) + 1) / 2
        before += len(places)
    return ranks


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)
