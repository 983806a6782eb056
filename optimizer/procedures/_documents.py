"""JSON documents of decisions and results, validated when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from optimizer.procedures._decisions import Continue, Decision, Pause, Source, Start, Stop
from optimizer.procedures._errors import LogError
from optimizer.procedures._plain_data import read_params, written_params
from optimizer.procedures._requests import Added, Extended, Origin, Stopped
from optimizer.procedures._results import Ended, EpochResult, OutOfTime, Result

__all__ = ["decision_document", "read_decision", "read_result", "result_document"]

# JSON has no word for these; a metric may be any of them.
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def decision_document(decision: Decision) -> dict[str, Any]:
    """Write a decision as plain data.

    Examples
    --------
    >>> decision_document(Stop("c000", "failed"))
    {'decision': 'stop', 'trial': 'c000', 'reason': 'failed'}
    """
    match decision:
        case Start():
            fields = {
                "params": written_params(decision.params),
                "epochs": decision.epochs,
                "source": _source_document(decision.source),
            }
            return {"decision": "start", "trial": decision.trial_id, **fields, "reason": decision.reason}
        case Continue():
            fields = {"epochs": decision.epochs, "reason": decision.reason}
            return {"decision": "continue", "trial": decision.trial_id, **fields}
        case Pause():
            return {"decision": "pause", "trial": decision.trial_id, "reason": decision.reason}
        case Stop():
            return {"decision": "stop", "trial": decision.trial_id, "reason": decision.reason}


def read_decision(document: Any) -> Decision:
    """Read a decision from its document.

    Raises
    ------
    LogError
        The document is invalid; the message names the field.
    """
    kinds: dict[str, dict[str, type]] = {
        "start": {"trial": str, "params": dict, "epochs": int, "source": object, "reason": str},
        "continue": {"trial": str, "epochs": int, "reason": str},
        "pause": {"trial": str, "reason": str},
        "stop": {"trial": str, "reason": str},
    }
    kind, fields = _fields(document, "decision", kinds)
    trial, reason = fields["trial"], fields["reason"]
    if kind == "pause":
        return Pause(trial, reason)
    if kind == "stop":
        return Stop(trial, reason)
    _check_epochs(fields["epochs"], document)
    if kind == "continue":
        return Continue(trial, fields["epochs"], reason)
    return Start(trial, read_params(fields["params"]), fields["epochs"], _source(fields["source"], document), reason)


def result_document(result: Result) -> dict[str, Any]:
    """Write a result as plain data.

    Examples
    --------
    >>> result_document(EpochResult("c000", 1, {"loss": float("nan")}))
    {'result': 'epoch', 'trial': 'c000', 'epoch': 1, 'metrics': {'loss': 'nan'}}
    """
    match result:
        case EpochResult():
            metrics = {name: _written(float(value)) for name, value in sorted(result.metrics.items())}
            return {"result": "epoch", "trial": result.trial_id, "epoch": result.epoch, "metrics": metrics}
        case Ended():
            return {"result": "ended", "trial": result.trial_id, "status": result.status}
        case OutOfTime():
            return {"result": "out of time", "reason": result.reason, **_command(result.origin)}
        case Added():
            fields = {
                "params": written_params(result.params),
                "epochs": result.epochs,
                "source": _source_document(result.source),
            }
            return {"result": "added", **fields, **_command(result.origin)}
        case Stopped():
            fields = {"trial": result.trial_id, "reason": result.reason}
            return {"result": "stopped", **fields, **_command(result.origin)}
        case Extended():
            fields = {"trial": result.trial_id, "epochs": result.epochs}
            return {"result": "extended", **fields, **_command(result.origin)}


def read_result(document: Any) -> Result:
    """Read a result from its document.

    Raises
    ------
    LogError
        The document is invalid; the message names the field.
    """
    kinds: dict[str, dict[str, type]] = {
        "epoch": {"trial": str, "epoch": int, "metrics": dict},
        "ended": {"trial": str, "status": str},
        "out of time": {"reason": str},
        "added": {"params": dict, "epochs": int, "source": object},
        "stopped": {"trial": str, "reason": str},
        "extended": {"trial": str, "epochs": int},
    }
    origin = None
    if isinstance(document, Mapping) and document.get("result") in {"added", "stopped", "extended", "out of time"}:
        origin = _origin(document.get("origin"), document)
        document = {name: value for name, value in document.items() if name != "origin"}
    kind, fields = _fields(document, "result", kinds)
    if kind == "out of time":
        return OutOfTime(fields["reason"], origin)
    if kind == "added":
        _check_epochs(fields["epochs"], document)
        return Added(read_params(fields["params"]), fields["epochs"], _source(fields["source"], document), origin)
    if kind == "stopped":
        return Stopped(fields["trial"], fields["reason"], origin)
    if kind == "extended":
        _check_epochs(fields["epochs"], document)
        return Extended(fields["trial"], fields["epochs"], origin)
    if kind == "ended":
        return Ended(fields["trial"], fields["status"])
    metrics = {name: _read(name, value, document) for name, value in fields["metrics"].items()}
    return EpochResult(fields["trial"], fields["epoch"], metrics)


def _command(origin: Origin | None) -> dict[str, Any]:
    """Write the field of a request that has an origin; documents without one are those of earlier releases."""
    return {} if origin is None else {"origin": asdict(origin)}


def _origin(document: Any, whole: Mapping[str, Any]) -> Origin | None:
    if document is None:
        return None
    if not isinstance(document, Mapping):
        raise LogError(f"origin must be a command, a user and a time, got {document!r} in {dict(whole)!r}")
    return Origin(**_checked(document, {"command": str, "user": str, "at": str}, whole))


def _source_document(source: Source | None) -> dict[str, Any] | None:
    if source is None:
        return None
    # Clones have the document of earlier releases.
    kind = {"weights_only": True} if source.weights_only else {}
    return {"trial": source.trial_id, "epoch": source.epoch, **kind}


def _source(document: Any, whole: Mapping[str, Any]) -> Source | None:
    if document is None:
        return None
    if not isinstance(document, Mapping):
        raise LogError(f"source must be a trial and an epoch, or null, got {document!r} in {dict(whole)!r}")
    fields = _checked({"weights_only": False, **document}, {"trial": str, "epoch": int, "weights_only": bool}, whole)
    return Source(fields["trial"], fields["epoch"], fields["weights_only"])


def _check_epochs(epochs: int, document: Mapping[str, Any]) -> None:
    if epochs < 1:
        raise LogError(f"epochs must be at least 1, got {epochs} in {dict(document)!r}")


def _fields(document: Any, label: str, kinds: Mapping[str, Mapping[str, type]]) -> tuple[str, dict[str, Any]]:
    if not isinstance(document, Mapping):
        raise LogError(f"document of a {label} must be a mapping, got {document!r}")
    kind = document.get(label)
    if not isinstance(kind, str) or kind not in kinds:
        raise LogError(f"{label} must be one of {', '.join(kinds)}, got {kind!r} in {dict(document)!r}")
    rest = {name: value for name, value in document.items() if name != label}
    return kind, _checked(rest, kinds[kind], document)


def _checked(fields: Mapping[str, Any], types: Mapping[str, type], document: Mapping[str, Any]) -> dict[str, Any]:
    if wrong := sorted(fields.keys() ^ types.keys()):
        raise LogError(f"fields must be {', '.join(types)}, got {dict(document)!r}: see {', '.join(wrong)}")
    for name, expected in types.items():
        value = fields[name]
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise LogError(f"{name} must be of type {expected.__name__}, got {value!r} in {dict(document)!r}")
    return dict(fields)


def _written(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _read(name: str, value: Any, document: Mapping[str, Any]) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LogError(
            f"metrics[{name!r}] must be a number or one of {', '.join(_NOT_FINITE)}, got {value!r} in "
            f"{dict(document)!r}"
        )
    return float(value)
