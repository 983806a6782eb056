"""Conversion of configurations to plain data, and to JSON and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from optimizer.errors import InvalidArgumentError

__all__ = ["plain", "read_params", "written_params"]

# Key of the JSON object that stands for a tuple, for which JSON has no word.
_TUPLE = "$tuple"


def plain(params: Any) -> dict[str, Any]:
    """Copy a configuration, so that the driver, the workers, the log and a resumed run see the same values.

    Scalars of numpy become Python's, with the same value; tuples and lists stay what they are.

    Examples
    --------
    >>> plain({"rate": np.float32(0.5), "kernel": (3, np.int64(3))})
    {'rate': 0.5, 'kernel': (3, 3)}
    """
    if not isinstance(params, Mapping):
        raise InvalidArgumentError(f"a configuration must be a mapping of names to values, got {params!r}")
    if not all(isinstance(name, str) for name in params):
        raise InvalidArgumentError(f"names of a configuration must be strings, got {dict(params)!r}")
    return {name: _plain(value, name, params) for name, value in params.items()}


def written_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a configuration for JSON.

    Examples
    --------
    >>> written_params({"kernel": (3, 3)})
    {'kernel': {'$tuple': [3, 3]}}
    """
    return {name: _written(value) for name, value in plain(params).items()}


def read_params(document: Mapping[str, Any]) -> dict[str, Any]:
    """Convert what :func:`written_params` returned back, also after a trip through JSON.

    Examples
    --------
    >>> read_params({"kernel": {"$tuple": [3, 3]}})
    {'kernel': (3, 3)}
    """
    return {name: _read(value) for name, value in document.items()}


def _plain(value: Any, name: str, params: Mapping[str, Any]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in {str, int, bool, type(None)} or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) in {list, tuple}:
        return type(value)(_plain(inner, name, params) for inner in value)
    if isinstance(value, Mapping) and all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: _plain(inner, name, params) for key, inner in value.items()}
    raise InvalidArgumentError(
        "a configuration must be plain data of strings, finite numbers, lists, tuples and mappings, got "
        f"{name}={value!r} of type {type(value).__name__} in {dict(params)!r}: let trainer_fn make objects of plain "
        "data, and write arrays as lists"
    )


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return {_TUPLE: [_written(inner) for inner in value]}
    if isinstance(value, list):
        return [_written(inner) for inner in value]
    return {key: _written(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_TUPLE} and isinstance(value[_TUPLE], list):
        return tuple(_read(inner) for inner in value[_TUPLE])
    return {key: _read(inner) for key, inner in value.items()}
