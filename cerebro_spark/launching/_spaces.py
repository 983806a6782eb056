"""Typed search spaces of launch documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cerebro_spark.tune import grid
from optimizer.errors import InvalidArgumentError, nearest
from optimizer.space import Space, read_domain

__all__ = ["check_grid", "search_space"]

_UNKNOWN = object()


def check_grid(document: Mapping[str, Any]) -> None:
    """Refuse domains whose values cannot be listed.

    Raises
    ------
    InvalidArgumentError
        A domain is a range without steps.
    """
    for name, entry in document.items():
        kind = entry.get("kind") if isinstance(entry, Mapping) else None
        if kind == "loguniform" or (kind == "uniform" and entry.get("step") is None):
            raise InvalidArgumentError(
                f"search_space[{name!r}] must be a choice, an int or have a step for a grid, got kind {kind}. List its "
                "values, or choose another procedure."
            )


def search_space(document: Mapping[str, Any], default: Any) -> Any:
    """Return the search space of a launch: the domains of its document, and for other names those of the source.

    Parameters
    ----------
    document : mapping
        Typed domains by name.
    default : mapping, sequence of mapping, or Space
        Search space of the source.

    Raises
    ------
    InvalidArgumentError
        A domain is not valid, or the source has no hyperparameter of a name.
    """
    chosen = {name: read_domain(name, entry) for name, entry in document.items()}
    if not chosen:
        return default
    entries = _entries(default)
    for name in chosen:
        if name not in entries:
            raise InvalidArgumentError(
                f"search_space must have hyperparameters of the model ({', '.join(entries)}), got {name!r}"
                f"{nearest(name, entries) or '.'}"
            )
    missing = [name for name, domain in entries.items() if domain is _UNKNOWN and name not in chosen]
    if missing:
        raise InvalidArgumentError(
            f"search_space must have all hyperparameters of the model, got no {', '.join(missing)}."
        )
    return Space({**entries, **chosen})


def _entries(default: Any) -> dict[str, Any]:
    """Return the domains of a search space by name; unknown ones for listed configurations and nested spaces."""
    if isinstance(default, Mapping):
        return dict(default)
    if isinstance(default, Space):
        domains = {each.path: each.domain for each in default.dimensions}
        constants = {name: value for name, value in default.sample(0, 0).items() if name not in domains}
        if all(path.isidentifier() for path in domains) and not any(isinstance(v, Mapping) for v in constants.values()):
            return domains | constants
        return dict.fromkeys(default.sample(0, 0), _UNKNOWN)
    return dict.fromkeys((name for params in grid(default) for name in params), _UNKNOWN)
