"""Domains in the form of launch documents and narrowed spaces, which forms of web pages edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.space._errors import SpaceError
from optimizer.space._range import integer, log_uniform, uniform
from optimizer.space._tree import choice

__all__ = ["read_domain"]

# Fields of each kind: those that it needs, and those that it may have.
_KINDS = {
    "loguniform": ({"low", "high"}, set()),
    "uniform": ({"low", "high"}, {"step"}),
    "int": ({"low", "high"}, {"step"}),
    "choice": ({"values"}, set()),
    "fixed": ({"value"}, set()),
}


def read_domain(name: str, entry: Any) -> Any:
    """Return the domain of a hyperparameter from the form that launch documents and narrowed spaces have.

    Parameters
    ----------
    name : str
        Name of the hyperparameter, for messages.
    entry : mapping
        ``kind``, and its fields: ``low`` and ``high`` for ``loguniform``, ``uniform`` and ``int``, of which the last
        two may have a ``step``; ``values`` for ``choice``; ``value`` for ``fixed``.

    Returns
    -------
    object
        Entry of a :class:`Space`: a domain, or the value of ``fixed``.

    Raises
    ------
    SpaceError
        The entry is not valid; the message names the hyperparameter.

    Examples
    --------
    >>> from optimizer.space import Space
    >>> Space({"units": read_domain("units", {"kind": "choice", "values": [16]})}).sample(0, 0)
    {'units': 16}
    """
    kind = entry.get("kind") if isinstance(entry, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SpaceError(f"search_space[{name!r}] must have a kind of {', '.join(_KINDS)}, got {entry!r}.")
    fields = {key: value for key, value in entry.items() if key != "kind" and value is not None}
    needed, optional = _KINDS[kind]
    if kind == "fixed" and "value" in entry:
        return entry["value"]
    if not needed <= set(fields) <= needed | optional:
        listed = ", ".join(sorted(needed)) + (f" and may have {', '.join(sorted(optional))}" if optional else "")
        raise SpaceError(f"search_space[{name!r}] of kind {kind} must have {listed}, got {dict(entry)!r}.")
    try:
        if kind == "choice":
            return choice(fields["values"])
        return {"loguniform": log_uniform, "uniform": uniform, "int": integer}[kind](**fields)  # type: ignore[operator]
    except SpaceError as error:
        raise SpaceError(f"search_space[{name!r}] must be a valid domain: {error}") from error
