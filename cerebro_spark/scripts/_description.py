"""Description of a script's module as plain data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError
from optimizer.space import Space

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

__all__ = ["SETTINGS", "describe", "form_space"]

SETTINGS = (
    *("procedure", "feature_columns", "label_columns", "weight_column", "image_size", "test_fraction", "metric"),
    *("mode", "num_epochs", "max_epochs", "eta", "num_configurations", "population", "keep", "num_shards", "seed"),
    *("max_configurations", "max_total_epochs", "max_seconds", "replicas"),
)
"""Names of a search file that an uploaded script may set too."""

_KINDS = {"uniform": "uniform", "log_uniform": "loguniform", "integer": "int"}


def describe(module: ModuleType) -> dict[str, Any]:
    """Describe a script: whether it has a trainer and converts its table, its search space and its settings.

    Raises
    ------
    SpaceError
        The search space is not valid.
    """
    settings = {name: getattr(module, name) for name in SETTINGS if hasattr(module, name)}
    space = getattr(module, "search_space", None)
    document: dict[str, Any] | None = None
    if space is not None:
        document = (space if isinstance(space, Space) else Space(space)).document()
    return {
        "trainer": callable(getattr(module, "trainer_fn", None)),
        "converts": callable(getattr(module, "convert_table", None)),
        "search_space": {} if document is None else form_space(document),
        "space": document,
        "settings": {name: value for name, value in settings.items() if _is_plain(value)},
    }


def form_space(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the document of a space in the form of the launch document; empty if the form cannot express it.

    Examples
    --------
    >>> from optimizer.space import Space, log_uniform
    >>> form_space(Space({"lr": log_uniform(1e-4, 0.1), "units": [16, 32], "layers": 2}).document())
    {'lr': {'kind': 'loguniform', 'low': 0.0001, 'high': 0.1}, 'units': {'kind': 'choice', 'values': [16, 32]}, \
'layers': {'kind': 'fixed', 'value': 2}}
    """
    try:
        return {entry["name"]: _form_entry(entry) for entry in document["entries"]}
    except _InexpressibleError:
        return {}


class _InexpressibleError(CerebroError):
    """Entry that depends on others, or of a kind that the form lacks."""


def _form_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    kind = entry["kind"]
    if "where" in entry:
        raise _InexpressibleError
    if kind == "constant":
        return {"kind": "fixed", "value": entry["value"]}
    if kind == "choice":
        return {"kind": "choice", "values": entry["options"]}
    if kind not in _KINDS:
        raise _InexpressibleError
    step = {"step": entry["step"]} if "step" in entry else {}
    return {"kind": _KINDS[kind], "low": entry["low"], "high": entry["high"], **step}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(each) for name, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
