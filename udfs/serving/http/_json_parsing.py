"""Strict parsing of JSON requests; each fault is a ``BadRequestError``."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from udfs.serving import BadRequestError

__all__ = ["integer", "json_object", "member", "parameters_of"]

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", int: "an integer"}


def json_object(data: memoryview | bytes) -> dict[str, Any]:
    """Parse an object, without ``NaN`` and ``Infinity``, which Python's parser accepts.

    Raises
    ------
    BadRequestError
        The bytes are not a JSON object.
    """
    try:
        document = json.loads(str(data, "utf-8"), parse_constant=_refuse)
    except RecursionError:
        raise BadRequestError("The JSON is nested too deeply.") from None
    except ValueError as error:
        if isinstance(error, BadRequestError):
            raise
        raise BadRequestError(f"The request must be JSON in UTF-8: {str(error)[:200]}.") from None
    if not isinstance(document, dict):
        raise BadRequestError('The request must be a JSON object: {"inputs": [...]}.')
    return document


def member(document: dict[str, Any], key: str, kind: type, where: str) -> Any:
    """Return a value of a type; ``None`` if it is missing.

    Raises
    ------
    BadRequestError
        The value has another type.
    """
    value = document.get(key)
    if value is not None and type(value) is not kind:
        raise BadRequestError(f"{key!r} of {where} must be {_KINDS[kind]}.")
    return value


def parameters_of(document: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the parameters of a request, an input or an output."""
    return member(document, "parameters", dict, where) or {}


def integer(document: dict[str, Any], key: str, where: str) -> int | None:
    """Return a non-negative integer; ``None`` if it is missing.

    Raises
    ------
    BadRequestError
        The value is negative, or not an integer.
    """
    value: int | None = member(document, key, int, where)
    if value is not None and value < 0:
        raise BadRequestError(f"{key!r} of {where} must be at least 0, got {value}.")
    return value


def _refuse(word: str) -> NoReturn:
    raise BadRequestError(f"{word} is not valid JSON. Send null for NaN, or the tensor as binary data.")
