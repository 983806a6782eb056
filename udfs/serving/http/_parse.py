"""JSON from strangers: strict, and each fault is a BadRequestError."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from udfs.serving import BadRequestError

__all__ = ["integer", "json_object", "member", "parameters_of"]

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", int: "an integer"}


def json_object(data: memoryview | bytes) -> dict[str, Any]:
    """Parse an object; ``NaN`` and ``Infinity``, which Python's parser takes, are no JSON.

    Raises
    ------
    BadRequestError
        The bytes are no JSON object.
    """
    try:
        document = json.loads(str(data, "utf-8"), parse_constant=_refuse)
    except RecursionError:
        raise BadRequestError("the JSON is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, BadRequestError):
            raise
        raise BadRequestError(f"the request is no JSON in UTF-8: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise BadRequestError('the request is JSON, but no object: {"inputs": [...]}')
    return document


def member(document: dict[str, Any], key: str, kind: type, where: str) -> Any:
    """Look up a value of one type; ``None`` where there is none.

    Raises
    ------
    BadRequestError
        It is of another type.
    """
    value = document.get(key)
    if value is not None and type(value) is not kind:
        raise BadRequestError(f"{key!r} of {where} is not {_KINDS[kind]}")
    return value


def parameters_of(document: dict[str, Any], where: str) -> dict[str, Any]:
    """Look up the parameters of a request, an input or an output."""
    return member(document, "parameters", dict, where) or {}


def integer(document: dict[str, Any], key: str, where: str) -> int | None:
    """Look up an integer that is not negative.

    Raises
    ------
    BadRequestError
        It is negative, or no integer.
    """
    value: int | None = member(document, key, int, where)
    if value is not None and value < 0:
        raise BadRequestError(f"{key!r} of {where} is negative")
    return value


def _refuse(word: str) -> NoReturn:
    raise BadRequestError(f"{word} is no JSON; send the tensor as binary data")
