"""Checks of the types of arguments, by the annotations of public functions and classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ForwardRef

from optimizer.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["argument_types", "check_types", "is_stopped"]

# Values of these classes are told by name, so that no framework is imported for a check.
_CLASSES = {
    "App": "an App",
    "BatchingProfile": "an optimizer.serving.BatchingProfile",
    "Estimator": "a Spark ML estimator",
    "Evaluator": "a Spark ML evaluator",
    "HttpLimits": "HttpLimits",
    "PreparedData": "a PreparedData",
    "Session": "a Session",
    "SparkBackend": "a SparkBackend",
    "SparkSession": "a SparkSession",
    "Store": "a Store",
    "TransferPlan": "a TransferPlan",
}
_TABLES = ("DataFrame", "Table", "LazyFrame")
_MOST_SHOWN = 60


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_truth(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_") or (_is_number(value, Integral) and value in (0, 1))


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, type))


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, "None"),
    "bool": (_is_truth, "True or False"),
    "int": (lambda value: _is_number(value, Integral), "an integer"),
    "float": (lambda value: _is_number(value, Real), "a number"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "Path": (lambda value: isinstance(value, os.PathLike), "a path"),
    "os.PathLike": (lambda value: isinstance(value, os.PathLike), "a path"),
    "Sequence": (_is_sequence, "a list"),
    "Sequence[str]": (
        lambda value: _is_sequence(value) and not any(not isinstance(each, str) for each in _listed(value)),
        "a list of texts",
    ),
    "Mapping": (lambda value: isinstance(value, Mapping), "a dict"),
    "Callable": (callable, "a function"),
    "DataFrame": (lambda value: _is_named(value, "DataFrame", "pyspark"), "a Spark DataFrame"),
}


def _listed(value: Iterable[Any]) -> Iterable[Any]:
    """Return the items of a list; those of an iterator are not read, because that would use them up."""
    return value if isinstance(value, (list, tuple, set, frozenset)) else ()


def _is_named(value: Any, name: str, package: str = "") -> bool:
    """Return whether a value is an instance of a class of this name, or of a subclass."""
    return any(each.__name__ == name and each.__module__.startswith(package) for each in type(value).__mro__)


def argument_types(annotations: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the alternatives of each annotation whose values can be checked.

    Examples
    --------
    >>> argument_types({"size": "int | None", "names": "Sequence[str]", "kind": "Pooling", "anything": "Any"})
    {'size': ('int', 'None'), 'names': ('Sequence[str]',)}
    """
    texts = {name: each.__forward_arg__ if isinstance(each, ForwardRef) else each for name, each in annotations.items()}
    kinds = {name: _alternatives(text) for name, text in texts.items() if isinstance(text, str) and name != "return"}
    return {name: kind for name, kind in kinds.items() if all(each in _CHECKS or each in _CLASSES for each in kind)}


def check_types(kinds: Mapping[str, tuple[str, ...]], values: Mapping[str, Any]) -> None:
    """Check arguments, and that the sessions of tables are running.

    Parameters
    ----------
    kinds : mapping of str to tuple of str
        Alternatives of each argument, from :func:`argument_types`.
    values : mapping of str to object
        Arguments; those without alternatives are not checked.

    Raises
    ------
    ArgumentTypeError
        A value is of none of the types.
    InvalidArgumentError
        The Spark session of a value is stopped.

    Examples
    --------
    >>> check_types({"image_size": ("int", "None")}, {"image_size": "96"})
    Traceback (most recent call last):
    optimizer.errors.ArgumentTypeError: image_size must be an integer or None, got '96'. Write 96 without quotes.
    """
    for name, value in values.items():
        alternatives = kinds.get(name, ())
        if alternatives and not any(_matches(value, each) for each in alternatives):
            words = " or ".join(_requirement(each) for each in alternatives)
            remedy = _remedy(name, value, alternatives)
            raise ArgumentTypeError(f"{name} must be {words}, got {_shown(value)}.{remedy and ' ' + remedy}")
        spark = value if _is_named(value, "SparkSession", "pyspark") else _session_of(value)
        if spark is not None and is_stopped(spark):
            raise InvalidArgumentError(
                f"{name} must belong to a running Spark session, got one of a session that is stopped: start a new one "
                "with session(), and read the DataFrames anew."
            )


def is_stopped(spark: Any) -> bool:
    """Return whether a Spark session is stopped; no job runs."""
    stopped = getattr(spark, "is_stopped", None)  # of Spark Connect
    if stopped is not None:
        return bool(stopped)
    try:
        spark.range(1)
    except Exception:  # noqa: BLE001 - what classic Spark raises differs between releases
        return True
    return False


def _session_of(value: Any) -> Any:
    return value.sparkSession if _is_named(value, "DataFrame", "pyspark") else None


def _alternatives(annotation: str) -> tuple[str, ...]:
    """Split a union outside of brackets, and name each part without its parameters."""
    parts, depth = [""], 0
    for character in annotation:
        depth += (character == "[") - (character == "]")
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    names = [part.strip() for part in parts]
    return tuple(name if name == "Sequence[str]" else name.partition("[")[0] for name in names)


def _matches(value: Any, kind: str) -> bool:
    if kind in _CHECKS:
        return _CHECKS[kind][0](value)
    return _is_named(value, kind)


def _requirement(kind: str) -> str:
    return _CHECKS[kind][1] if kind in _CHECKS else _CLASSES[kind]


def _shown(value: Any) -> str:
    """Describe a value in one line: plain data as they are, others by their class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, (str, int, float, bytes, list, tuple, dict, set)):
        text = " ".join(repr(value).split())
        return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
    kind = type(value)
    return f"a {kind.__name__} of {kind.__module__.partition('.')[0]}"


def _remedy(argument: str, value: Any, kinds: tuple[str, ...]) -> str:
    """Return the remedy for a common mistake; an empty text for others."""
    wanted = set(kinds)
    name = type(value).__name__
    remedies = [
        (
            _is_named(value, "Search") and "Callable" in wanted,
            f"Write partial({name}, ...) with its own settings alone.",
        ),
        (argument == "search" and "Callable" in wanted, "Write partial(Hyperband, max_epochs=9)."),
        (isinstance(value, type) and wanted & set(_CLASSES), f"Make an instance: {getattr(value, '__name__', '')}()."),
        ("DataFrame" in wanted and name in _TABLES, "Make a Spark DataFrame of it: spark.createDataFrame(frame)."),
        ("Session" in wanted and isinstance(value, str), f"Write Session({value!r}, model=...)."),
        ("SparkBackend" in wanted, "Write SparkBackend(spark, num_workers=2)."),
        ("SparkSession" in wanted, "Start one with session()."),
        ("Store" in wanted and isinstance(value, (str, os.PathLike)), f"Write Store.from_uri({str(value)!r})."),
        (wanted & {"Sequence", "Sequence[str]"} and isinstance(value, str), f"Write [{value!r}]."),
        (wanted & {"int", "float", "bool"} and _is_literal(value), f"Write {str(value).strip()} without quotes."),
    ]
    return next((text for holds, text in remedies if holds), "")


def _is_literal(text: Any) -> bool:
    """Return whether a text is a number, True or False."""
    if not isinstance(text, str) or text.strip() in ("True", "False"):
        return isinstance(text, str)
    try:
        float(text)
    except ValueError:
        return False
    return True
