"""Conversion of configurations to plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from optimizer.errors import InvalidArgumentError

__all__ = ["plain"]


def plain(params: Any) -> dict[str, Any]:
    """Copy a configuration through JSON, so that the log, the workers and a resumed run see the same values."""
    if not isinstance(params, Mapping):
        raise InvalidArgumentError(f"a configuration must be a mapping of names to values, got {params!r}")
    if not all(isinstance(name, str) for name in params):
        raise InvalidArgumentError(f"names of a configuration must be strings, got {dict(params)!r}")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(params), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"a configuration must be plain data of strings, numbers, lists and mappings, got {dict(params)!r} "
            f"({error})"
        ) from error
    return copied
