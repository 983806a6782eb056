"""Conversion of dataclasses to plain data and back, validated against their type hints."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from udfs.rpc._errors import RefusedError

__all__ = ["decode", "encode"]

_PLAIN = (str, int, float, bool, type(None))


def encode(value: Any) -> Any:
    """Convert a dataclass, and those in its fields and tuples, to the name of its type and its fields.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     rows: int
    >>> encode(Size(3))
    {'type': 'Size', 'fields': {'rows': 3}}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "type": type(value).__name__,
            "fields": {field.name: encode(getattr(value, field.name)) for field in fields(value)},
        }
    return tuple(map(encode, value)) if isinstance(value, tuple) else value


def decode(hint: Any, value: Any, place: str = "") -> Any:
    """Convert plain data to the type of a type hint.

    Parameters
    ----------
    hint : type hint
        A dataclass, ``str``, ``int``, ``float``, ``bool``, ``None``, an array with its element type, ``Any``; tuples,
        lists, mappings and unions of them.

    Raises
    ------
    RefusedError
        The value is of another type, or a dataclass has unknown or missing fields.
    TypeError
        The hint is of a type that messages do not support.

    Examples
    --------
    >>> decode(tuple[int, ...], (1, 2))
    (1, 2)
    >>> decode(dict[str, float], {"loss": 1})
    {'loss': 1.0}
    """
    if hint is Any:
        return value
    if is_dataclass(hint):
        return _dataclass(hint, value, place)
    if hint in _PLAIN:
        return _plain(hint, value, place)
    reader = _READERS.get(get_origin(hint))
    if reader is None:
        raise TypeError(f"{_place(place)} has the type {hint}, which no message may have")
    return reader(hint, value, place)


def _plain(hint: Any, value: Any, place: str) -> Any:
    # isinstance would accept a bool as an int. JSON may write a float without a fraction, so an int is a valid float.
    if type(value) is hint:
        return value
    if hint is float and type(value) is int:
        return float(value)
    raise _wrong(hint, value, place)


def _dataclass(hint: Any, value: Any, place: str) -> Any:
    if not _is_message(value) or value["type"] != hint.__name__ or not isinstance(value["fields"], dict):
        raise _wrong(hint, value, place)
    hints, values = _hints(hint), value["fields"]
    for text, names in (("no", hints.keys() - values.keys()), ("an unknown", values.keys() - hints.keys())):
        if names:
            raise RefusedError(f"{hint.__name__} has {text} field {', '.join(sorted(map(repr, names)))}")
    return hint(**{name: decode(hints[name], values[name], f"{hint.__name__}.{name}") for name in hints})


def _union(hint: Any, value: Any, place: str) -> Any:
    members = get_args(hint)
    if _is_message(value):
        for member in members:
            if is_dataclass(member) and _name(member) == value["type"]:
                return _dataclass(member, value, place)
    for member in members:
        if not is_dataclass(member):
            try:
                return decode(member, value, place)
            except RefusedError:
                continue
    raise _wrong(hint, value, place)


def _tuple(hint: Any, value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise _wrong(hint, value, place)
    inner = get_args(hint)
    if inner[1:] == (...,):
        inner = (inner[0],) * len(value)
    if len(inner) != len(value):
        raise RefusedError(f"{_place(place)} has {len(value)} entries, and has to have {len(inner)}")
    pairs = enumerate(zip(inner, value, strict=True))
    return tuple(decode(each, item, f"{place}[{number}]") for number, (each, item) in pairs)


def _list(hint: Any, value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(hint, value, place)
    (inner,) = get_args(hint)
    return [decode(inner, item, f"{place}[{number}]") for number, item in enumerate(value)]


def _mapping(hint: Any, value: Any, place: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _wrong(hint, value, place)
    keys, items = get_args(hint)
    return {decode(keys, key, place): decode(items, item, f"{place}[{key!r}]") for key, item in value.items()}


def _array(hint: Any, value: Any, place: str) -> Any:
    _, dtype = get_args(hint)
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(get_args(dtype)[0]):
        raise _wrong(hint, value, place)
    return value


_READERS: dict[Any, Callable[[Any, Any, str], Any]] = {
    Union: _union,
    types.UnionType: _union,
    tuple: _tuple,
    list: _list,
    dict: _mapping,
    Mapping: _mapping,
    np.ndarray: _array,
}


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"type", "fields"}


def _wrong(hint: Any, value: Any, place: str) -> RefusedError:
    if _is_message(value):
        kind = repr(value["type"])
    else:
        kind = f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__
    return RefusedError(f"{_place(place)} is {kind}, and has to be {_name(hint)}")


def _place(place: str) -> str:
    return place or "a message"


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)
