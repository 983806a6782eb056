"""Search space of what the best configurations of an experiment have in common."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from optimizer.steering._ranking import ranked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.steering._progress import Progress

__all__ = ["Narrowed", "narrowed_space"]

# Numbers that span less than this factor are not taken for values of a logarithmic scale.
_LOG_FACTOR = 10.0
_RANGES = ("uniform", "loguniform", "int")


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Search space that the best configurations suggest.

    Parameters
    ----------
    trials : tuple of str
        Ids of the best configurations, the best first.
    search_space : dict
        Entry of each hyperparameter: ``{"kind": "loguniform", "low": ..., "high": ...}``, of the kinds ``uniform``,
        ``loguniform``, ``int``, ``choice`` (``values``) and ``fixed`` (``value``).
    reasons : dict of str to str
        Reason for each entry.

    Examples
    --------
    >>> Narrowed(("c003",), {"units": {"kind": "fixed", "value": 64}}, {"units": "64 in all of them"}).trials
    ('c003',)
    """

    trials: tuple[str, ...]
    search_space: dict[str, dict[str, Any]]
    reasons: dict[str, str]

    def document(self) -> dict[str, Any]:
        """Write the space as plain data."""
        return {"trials": list(self.trials), "search_space": self.search_space, "reasons": self.reasons}


def narrowed_space(progress: Progress, best: int = 5, space: Mapping[str, Mapping[str, Any]] | None = None) -> Narrowed:
    """Narrow a search space to the surroundings of the best configurations.

    The range of a number extends from the lowest to the highest value among the best, and on both sides half the way to
    the next value that was tried; on a logarithmic scale this is the geometric mean. It never leaves the range of the
    experiment. Other hyperparameters, and whole numbers that were chosen from a list, keep the values that occur among
    the best, the most frequent one first.

    Parameters
    ----------
    progress : Progress
        State of the experiment.
    best : int, optional
        Number of configurations. Default 5.
    space : mapping, optional
        Space of the experiment, in the form of :class:`Narrowed`. Default: unknown, so that the kinds follow from the
        values that were tried.

    Returns
    -------
    Narrowed
        Space; empty before the first finished epoch.

    Raises
    ------
    InvalidArgumentError
        ``best`` is not positive.

    Examples
    --------
    >>> from optimizer.steering import Configuration, Progress
    >>> tried = {"c000": (0.1, 0.9), "c001": (0.01, 0.3), "c002": (0.001, 0.2), "c003": (0.0001, 0.8)}
    >>> progress = Progress(configurations={
    ...     trial: Configuration(trial, {"lr": lr}, 1, history=[{"loss": loss}]) for trial, (lr, loss) in tried.items()
    ... })
    >>> narrowed_space(progress, best=2).search_space
    {'lr': {'kind': 'loguniform', 'low': 0.000316228, 'high': 0.0316228}}
    """
    if best < 1:
        raise InvalidArgumentError(f"best must be a positive integer, got {best}.")
    chosen = [each for each, _ in ranked(progress)[:best]]
    names = dict.fromkeys(name for each in chosen for name in each.params)
    entries, reasons = {}, {}
    for name in names:
        values = [each.params[name] for each in chosen if name in each.params]
        tried = [each.params[name] for each in progress.configurations.values() if name in each.params]
        entries[name], reasons[name] = _narrow(values, tried, (space or {}).get(name) or {})
    return Narrowed(tuple(each.trial_id for each in chosen), entries, reasons)


def _narrow(values: list[Any], tried: list[Any], entry: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    numeric = all(_is_number(value) for value in tried)
    if not numeric or entry.get("kind") in {"choice", "fixed"}:
        return _common(values, tried)
    kind = entry["kind"] if entry.get("kind") in _RANGES else _kind(tried)
    if kind == "choice":
        return _common(values, tried)
    bounds: list[Any] = [entry[name] for name in ("low", "high") if _is_number(entry.get(name))]
    low, high = _around(values, sorted({*tried, *bounds}), kind)
    span = f"{_text(min(values))} to {_text(max(values))} in the best"
    reason = f"{span}, {_text(min(tried))} to {_text(max(tried))} in all"
    if low == high:
        return {"kind": "fixed", "value": low}, f"{_text(low)} in all of the best"
    step = {"step": entry["step"]} if kind == "int" and _is_number(entry.get("step")) else {}
    return {"kind": kind, "low": low, "high": high, **step}, reason


def _common(values: list[Any], tried: list[Any]) -> tuple[dict[str, Any], str]:
    counts: dict[str, int] = {}
    for value in values:
        counts[_key(value)] = counts.get(_key(value), 0) + 1
    by_key = {_key(value): value for value in values}
    frequent = sorted(counts, key=lambda key: -counts[key])
    if len(frequent) == 1:
        return {"kind": "fixed", "value": values[0]}, f"{_text(values[0])} in all of the best"
    shares = ", ".join(f"{_text(by_key[key])} in {counts[key]} of {len(values)}" for key in frequent)
    left = len({_key(value) for value in tried} - set(counts))
    return {"kind": "choice", "values": [by_key[key] for key in frequent]}, shares + (
        f"; {left} left out" if left else ""
    )


def _around(values: Sequence[float], tried: Sequence[float], kind: str) -> tuple[float, float]:
    low, high = min(values), max(values)
    below = max((value for value in tried if value < low), default=low)
    above = min((value for value in tried if value > high), default=high)
    if kind == "int":
        return math.ceil((below + low) / 2), math.floor((high + above) / 2)
    if kind == "loguniform" and below > 0:
        # Not sqrt(a * b), whose product may be 0 or infinite.
        between = [math.sqrt(below) * math.sqrt(low), math.sqrt(high) * math.sqrt(above)]
    else:
        between = [low - (low - below) / 2, high + (above - high) / 2]
    # Bounds that were tried stay as they are, without the error of a root.
    first, last = (low if below == low else _rounded(between[0])), (high if above == high else _rounded(between[1]))
    return first, last


def _kind(tried: Sequence[float]) -> str:
    if all(isinstance(value, int) for value in tried):
        # Whole numbers that repeat are those of a list, such as 16, 32, 64.
        return "choice" if 2 * len(set(tried)) <= len(tried) else "int"
    low, high = min(tried), max(tried)
    if low <= 0 or high / low < _LOG_FACTOR:
        return "uniform"
    middle = median_low(tried)
    is_geometric = abs(middle - math.sqrt(low) * math.sqrt(high)) < abs(middle - (low / 2 + high / 2))
    return "loguniform" if is_geometric else "uniform"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else _key(value)
