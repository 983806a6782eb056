"""Validation of the documents that progress is folded from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError
from optimizer.steering._plain_json import is_plain_json

__all__ = ["STREAMS", "check_event", "document_digest"]

STREAMS = ("orders", "units", "trials")
"""Streams of a run that its runner reports."""

_NUMBER = (float, int)
_WORDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    list: "a list",
    Mapping: "a mapping",
    type(None): "null",
}
_RESULTS: dict[str, dict[str, Any]] = {
    "epoch": {"trial": str, "epoch": int, "metrics": Mapping},
    "ended": {"trial": str, "status": str},
    "out of time": {"reason": str},
    "added": {"params": Mapping, "epochs": int},
    "stopped": {"trial": str, "reason": str},
    "extended": {"trial": str, "epochs": int},
}
_DECISIONS: dict[str, dict[str, Any]] = {
    "start": {"trial": str, "params": Mapping, "epochs": int, "source": (Mapping, type(None)), "reason": str},
    "continue": {"trial": str, "epochs": int, "reason": str},
    "pause": {"trial": str, "reason": str},
    "stop": {"trial": str, "reason": str},
}
_UNIT = {
    "kind": str,
    "trial_id": str,
    "worker": str,
    "epoch": int,
    "partition": int,
    "began": _NUMBER,
    "ended": _NUMBER,
    "seconds": _NUMBER,
}


def check_event(stream: str, document: Any) -> None:
    """Validate a document of a run's journal.

    Fields that are not needed may have any value, so that newer runners work with older servers.

    Parameters
    ----------
    stream : {"orders", "units", "trials"}
        ``"orders"`` for an exchange with the procedure, ``"units"`` for a list of units, ``"trials"`` for the traceback
        of a configuration.
    document : object
        Document to validate.

    Raises
    ------
    InvalidArgumentError
        The document is invalid; the message names the field.

    Examples
    --------
    >>> check_event("orders", {"results": [], "idle": 0, "decisions": [{"decision": "stop", "trial": "c000"}]})
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: reason of the decision 'stop' must be a string, got None. Send the \
journal's documents as they are
    """
    one_of("stream", stream, STREAMS)
    if not is_plain_json(document):
        raise _refused(f"document of {stream}", "JSON data with finite numbers in at most 50 levels", document)
    if stream == "units":
        for unit in _items("units", document):
            _check_fields("a unit", unit, _UNIT)
    elif stream == "trials":
        _check_fields("a trial", document, {"trial": str, "traceback": str})
    else:
        _check_fields("an order", document, {"results": list, "decisions": list})
        for result in document["results"]:
            kind = _kind(result, "result", _RESULTS)
            if kind == "epoch":
                _check_metrics(result["metrics"])
            _check_origin(result.get("origin"))
        for decision in document["decisions"]:
            if _kind(decision, "decision", _DECISIONS) == "start" and decision["source"] is not None:
                _check_fields("a source", decision["source"], {"trial": str, "epoch": int})


def document_digest(document: Any) -> str:
    """Return the SHA-256 digest of a document, which is the same before and after JSON.

    Examples
    --------
    >>> document_digest({"a": 1, "b": (2,)}) == document_digest({"b": [2], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _items(name: str, document: Any) -> list[Any]:
    if not isinstance(document, list):
        raise _refused(name, "a list", document)
    return document


def _kind(document: Any, label: str, kinds: Mapping[str, dict[str, Any]]) -> str:
    kind = document.get(label) if isinstance(document, Mapping) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise _refused(label, f"one of {', '.join(kinds)}", kind)
    _check_fields(f"the {label} {kind!r}", document, kinds[kind])
    return kind


def _check_metrics(metrics: Mapping[str, Any]) -> None:
    for name, value in metrics.items():
        if value not in {"nan", "inf", "-inf"} if isinstance(value, str) else not _is_a(value, _NUMBER):
            raise _refused(f"metric {name!r}", "a number, 'nan', 'inf' or '-inf'", value)


def _check_origin(origin: Any) -> None:
    if origin is not None:
        _check_fields("an origin", origin, {"command": str, "user": str})


def _check_fields(what: str, document: Any, kinds: Mapping[str, Any]) -> None:
    if not isinstance(document, Mapping):
        raise _refused(what, "a mapping", document)
    for name, kind in kinds.items():
        if not _is_a(document.get(name), kind):
            names = dict.fromkeys(_WORDS[each] for each in (kind if isinstance(kind, tuple) else (kind,)))
            raise _refused(f"{name} of {what}", " or ".join(names), document.get(name))


def _is_a(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _refused(name: str, requirement: str, value: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} must be {requirement}, got {repr(value)[:200]}. Send the journal's documents as they are"
    )
