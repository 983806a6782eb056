"""Conversion of spaces to plain data and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.space._errors import SpaceError
from optimizer.space._range import Range, integer, log_integer, log_uniform, uniform
from optimizer.space._repeat import Repeat, repeat
from optimizer.space._tree import Constant, Group, choice

if TYPE_CHECKING:
    from optimizer.space._condition import Condition

__all__ = ["documented", "read_document"]

_VERSION = 1
_BOUNDS = {"low", "high"}
_KEYS = {
    "uniform": (_BOUNDS, {"step", "where"}),
    "log_uniform": (_BOUNDS, {"where"}),
    "integer": (_BOUNDS, {"step", "where"}),
    "log_integer": (_BOUNDS, {"where"}),
    "repeat": ({"low", "high", "entries"}, {"where"}),
    "choice": ({"options"}, {"where"}),
    "branches": ({"branches"}, {"where"}),
    "constant": ({"value"}, set()),
    "mapping": ({"entries"}, set()),
}


def documented(root: Group, *, functions: bool = False) -> dict[str, Any]:
    """Return a tree as plain data; with ``functions``, a mark replaces each function instead of an error.

    Raises
    ------
    SpaceError
        A condition is a function.
    """
    return {"version": _VERSION, "entries": _entries(root, functions)}


def _entries(group: Group, functions: bool) -> list[dict[str, Any]]:
    # A list, since the grid follows the order of names, which not every writer of JSON keeps.
    return [{"name": name, **_entry(name, entry, functions)} for name, entry in group.entries]


def _entry(name: str, entry: Any, functions: bool) -> dict[str, Any]:
    if isinstance(entry, Group):
        return {"kind": "mapping", "entries": _entries(entry, functions)}
    if isinstance(entry, Constant):
        return {"kind": "constant", "value": entry.value}
    where = _where(name, entry.where, functions)
    if isinstance(entry, Repeat):
        entries = _entries(entry.block, functions)
        return {"kind": "repeat", "low": entry.low, "high": entry.high, "entries": entries, **where}
    if isinstance(entry, Range):
        step = {} if entry.step is None else {"step": entry.step}
        return {"kind": entry.kind, "low": entry.low, "high": entry.high, **step, **where}
    if entry.branches is None:
        return {"kind": "choice", "options": list(entry.options), **where}
    branches = [
        {"name": option, "entries": _entries(branch, functions)}
        for option, branch in zip(entry.options, entry.branches, strict=True)
    ]
    return {"kind": "branches", "branches": branches, **where}


def _where(name: str, where: Condition, functions: bool) -> dict[str, Any]:
    if not where:
        return {}
    if where.test is None:
        return {"where": {needed: list(values) for needed, values in where.needs}}
    if functions:
        return {"where": "function"}
    raise SpaceError(
        f"where of {name!r} must be a mapping for a document, such as {{'optimizer': 'sgd'}}, got a function"
    )


def read_document(document: Any) -> dict[str, Any]:
    """Return the search space of a document.

    Raises
    ------
    SpaceError
        The document is invalid.
    """
    if not isinstance(document, Mapping) or set(document) != {"version", "entries"}:
        raise SpaceError(f"document must have the keys version and entries, got {document!r}")
    if document["version"] != _VERSION:
        raise SpaceError(f"version of the document must be {_VERSION}, got {document['version']!r}")
    return _read_entries(document["entries"])


def _read_entries(entries: Any) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for entry in _list(entries, "entries"):
        kind = entry.get("kind") if isinstance(entry, Mapping) else None
        if not isinstance(kind, str) or kind not in _KEYS:
            raise SpaceError(f"kind of an entry must be one of {', '.join(_KEYS)}, got {entry!r}")
        _put(read, entry, _read(kind, _fields(entry, *_KEYS[kind])))
    return read


def _read(kind: str, fields: dict[str, Any]) -> Any:
    if kind == "constant":
        if isinstance(fields["value"], Mapping | list):
            raise SpaceError(f"the document of a space has a constant {fields['value']!r}, which is not plain")
        return fields["value"]
    if kind == "mapping":
        return _read_entries(fields["entries"])
    where = fields.pop("where", None)
    if where is not None and not isinstance(where, Mapping):
        raise SpaceError(f"where must be a mapping of names to values, got {where!r}")
    if kind == "choice":
        return choice(_list(fields["options"], "options"), where=where)
    if kind == "branches":
        branches: dict[str, Any] = {}
        for branch in _list(fields["branches"], "branches"):
            _put(branches, branch, _read_entries(_fields(branch, {"entries"}, set())["entries"]))
        return choice(branches, where=where)
    if kind == "repeat":
        return repeat(_read_entries(fields.pop("entries")), **fields, where=where)
    makers: dict[str, Any] = {
        "uniform": uniform,
        "log_uniform": log_uniform,
        "integer": integer,
        "log_integer": log_integer,
    }
    return makers[kind](**fields, where=where)


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise SpaceError(f"{field} must be a list, got {value!r}")
    return value


def _fields(entry: Any, needed: set[str], allowed: set[str]) -> dict[str, Any]:
    fields = dict(entry) if isinstance(entry, Mapping) else {}
    for key in ("name", "kind"):
        fields.pop(key, None)
    if not needed <= set(fields) <= needed | allowed:
        optional = f" and optionally {', '.join(sorted(allowed))}" if allowed else ""
        raise SpaceError(f"an entry must have {', '.join(sorted(needed))}{optional}, got {entry!r}")
    return fields


def _put(read: dict[str, Any], entry: Mapping[str, Any], value: Any) -> None:
    name = entry.get("name")
    if not isinstance(name, str) or name in read:
        raise SpaceError(f"name of an entry must be a string that occurs once, got {name!r}")
    read[name] = value
