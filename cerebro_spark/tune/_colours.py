"""Colours of configurations, the same in all pictures of a run."""

from __future__ import annotations

import colorsys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cerebro_spark.tune._result import TrialResult

__all__ = ["describe_trial", "trial_colours"]

# The colours that matplotlib and plotly begin with.
_FEW = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"
)  # fmt: skip
# Multiples of the golden ratio are far from each other on the circle of hues, however many there are.
_GOLDEN = 0.618034
_LIGHTNESS = (0.42, 0.6, 0.3)

# Characters of a configuration's params in a legend.
_LONGEST = 60


def trial_colours(trial_ids: Iterable[str]) -> dict[str, str]:
    """Return a colour for each configuration of a run, by its id and not by its rank.

    Examples
    --------
    >>> trial_colours(["c001", "c000"])
    {'c000': '#1f77b4', 'c001': '#ff7f0e'}
    """
    return {trial_id: _colour(place) for place, trial_id in enumerate(sorted(set(trial_ids)))}


def _colour(place: int) -> str:
    if place < len(_FEW):
        return _FEW[place]
    rgb = colorsys.hls_to_rgb(place * _GOLDEN % 1, _LIGHTNESS[place % len(_LIGHTNESS)], 0.75)
    return "#" + "".join(f"{round(255 * share):02x}" for share in rgb)


def describe_trial(trial: TrialResult) -> str:
    """Return the id and params of a configuration, and the reason if an error ended it.

    Params that an Estimator sets for itself, whose names begin with an underscore, are left out. Long ones, such as
    nested architectures, are cut: a legend that is wider than its figure leaves no room for the curves.
    """
    values = {
        name: f"{value:.4g}" if isinstance(value, float) else value
        for name, value in trial.params.items()
        if not name.startswith("_")
    }
    params = ", ".join(f"{name}={value}" for name, value in values.items())
    if len(params) > _LONGEST:
        params = textwrap.shorten(params, _LONGEST, placeholder=" …")
    ended = f" ({trial.status})" if trial.failed else ""
    return f"{trial.trial_id}: {params}{ended}"
