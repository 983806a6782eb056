"""Filter of configurations, for a command to many of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.arguments import real, whole_or_none
from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from optimizer.steering._progress import Configuration, Progress

__all__ = ["Filter", "read_filter"]

_KEYS = ("status", "owner", "metric", "text", "trials")


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that a configuration meets all of.

    Parameters
    ----------
    statuses : tuple of str, optional
        Statuses, one of which it has. Default: any.
    owner : str, optional
        User who added it; ``""`` for the procedure. Default: any.
    metric : str, optional
        Name of the metric that is limited. Default: the one that decides.
    below, above : float, optional
        Limits of its last value, which a configuration without a value does not meet. Default: none.
    text : str, optional
        Part of its id, status, owner, parent, reason or hyperparameters, in any case. Default: any.
    trials : mapping of str to int or None, optional
        Ids, with the revisions that the user saw, or None. Default: any.
    """

    statuses: tuple[str, ...] = ()
    owner: str | None = None
    metric: str = ""
    below: float | None = None
    above: float | None = None
    text: str = ""
    trials: Mapping[str, int | None] | None = None

    def select(self, progress: Progress) -> list[Configuration]:
        """List the configurations that meet the conditions, in the order of their starts.

        Examples
        --------
        >>> from optimizer.steering import Configuration, Progress
        >>> tried = [Configuration(f"c{n}", {"lr": n}, 5, history=[{"loss": 0.1 * n}]) for n in range(3)]
        >>> progress = Progress(metric="loss", configurations={each.trial_id: each for each in tried})
        >>> [each.trial_id for each in Filter(above=0.15).select(progress)]
        ['c2']
        """
        return [each for each in progress.configurations.values() if self._meets(each, progress)]

    def _meets(self, known: Configuration, progress: Progress) -> bool:
        value = known.history[-1].get(self.metric or progress.metric) if known.history else None
        return (
            (not self.statuses or known.status in self.statuses)
            and self.owner in {None, known.owner}
            and (self.below is None or (value is not None and value < self.below))
            and (self.above is None or (value is not None and value > self.above))
            and (self.trials is None or known.trial_id in self.trials)
            and self.text.lower() in _searched(known)
        )


def read_filter(document: Any) -> Filter:
    """Read a filter from its document.

    Parameters
    ----------
    document : object
        Mapping with some of ``status`` (a text or a list), ``owner``, ``metric`` (``name``, ``below``, ``above``),
        ``text``, and ``trials`` (a list of ids, or a mapping of ids to revisions).

    Raises
    ------
    InvalidArgumentError
        The document is invalid; the message names the field.

    Examples
    --------
    >>> read_filter({"status": "running", "metric": {"above": 0.7}}).above
    0.7
    """
    if not isinstance(document, Mapping):
        raise InvalidArgumentError(f"where must be a mapping of conditions, got {repr(document)[:200]}.")
    for key in document.keys() - set(_KEYS):
        hint = nearest(key, _KEYS) if isinstance(key, str) else ""
        raise InvalidArgumentError(f"conditions of where must be among {', '.join(_KEYS)}, got {key!r}{hint or '.'}")
    status, limits = document.get("status") or [], document.get("metric") or {}
    statuses = [status] if isinstance(status, str) else status
    if not isinstance(statuses, list) or not all(isinstance(each, str) for each in statuses):
        raise _refused("status", "a status or a list of them", status)
    if not isinstance(limits, Mapping) or limits.keys() - {"name", "below", "above"}:
        raise _refused("metric", 'a mapping such as {"name": "loss", "above": 0.7}', limits)
    bounds = {name: real(name, limits[name]) for name in ("below", "above") if limits.get(name) is not None}
    return Filter(
        tuple(statuses),
        _text("owner", document.get("owner")),
        _text("name of metric", limits.get("name")) or "",
        bounds.get("below"),
        bounds.get("above"),
        _text("text", document.get("text")) or "",
        _trials(document.get("trials")),
    )


def _trials(value: Any) -> dict[str, int | None] | None:
    if value is None:
        return None
    revisions = (
        dict.fromkeys(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value
    )
    if not isinstance(revisions, Mapping) or not all(isinstance(each, str) for each in revisions):
        raise _refused("trials", "a list of ids, or a mapping of ids to revisions", value)
    return {trial: whole_or_none("revision", revision, 0) for trial, revision in revisions.items()}


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _refused(name, "a text", value)
    return value


def _searched(known: Configuration) -> str:
    params = json.dumps(known.params, ensure_ascii=False, separators=(",", ":"))
    return f"{known.trial_id} {known.status} {known.owner} {known.parent} {known.reason} {params}".lower()


def _refused(name: str, requirement: str, value: Any) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} must be {requirement}, got {repr(value)[:200]}.")
