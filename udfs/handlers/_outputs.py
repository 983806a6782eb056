"""Keys of a network's outputs: places of a returned tuple, names of a returned dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.errors import CerebroError, nearest

__all__ = ["UnknownOutputError", "keyed_outputs", "output_at"]


class UnknownOutputError(CerebroError, KeyError):
    """A key that no output of the network has; the message lists the keys."""

    def __str__(self) -> str:
        return str(self.args[0])


def keyed_outputs(returned: Any, kind: type) -> dict[str | int, Any]:
    """Return the key by which a caller reads each tensor that a network returns.

    ``returned`` is a tensor, or tuples, lists and dictionaries of tensors of the class ``kind``; anything else in them
    is left out. The result is empty where a single tensor is returned. Keys of nested tensors are joined by dots.

    Examples
    --------
    >>> keyed_outputs({"scores": 1.0, "features": (2.0, None)}, float)
    {'scores': 1.0, 'features.0': 2.0}
    """
    keyed: dict[str | int, Any] = {}
    for key, value in _entries(returned):
        if isinstance(value, kind):
            keyed[key] = value
        else:
            keyed.update({f"{key}.{inner}": tensor for inner, tensor in keyed_outputs(value, kind).items()})
    return keyed


def output_at(key: str | int, keyed: Mapping[str | int, str]) -> str:
    """Look an output up by its key; the message of an UnknownOutputError lists those that there are."""
    flag = isinstance(key, bool)  # equal to 0 or 1
    if flag or key not in keyed:
        if not keyed:
            raise UnknownOutputError(f"output {key!r}: the network returns one tensor, which has no name and no index")
        hint = nearest(key, [name for name in keyed if isinstance(name, str)]) if isinstance(key, str) else ""
        raise UnknownOutputError(f"output must be one of {', '.join(map(repr, keyed))}, got {key!r}{hint}")
    return keyed[key]


def _entries(returned: Any) -> list[tuple[str | int, Any]]:
    if isinstance(returned, Mapping):
        return [(key if isinstance(key, (int, str)) else str(key), value) for key, value in returned.items()]
    if isinstance(returned, Sequence) and not isinstance(returned, str):
        return list(enumerate(returned))
    return []
