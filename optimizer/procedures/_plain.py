"""Configurations as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from optimizer.errors import InvalidArgumentError

__all__ = ["plain"]


def plain(params: Any) -> dict[str, Any]:
    """Copy a configuration as JSON keeps it: the log, the workers and a resumed run see the same values."""
    if not isinstance(params, Mapping):
        raise InvalidArgumentError(f"{params!r} is not a configuration: a mapping of names to values")
    if not all(isinstance(name, str) for name in params):
        raise InvalidArgumentError(f"{dict(params)!r}: the names of a configuration are strings")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(params), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{dict(params)!r} is not plain data ({error}): use strings, numbers, lists and mappings of them"
        ) from error
    return copied
