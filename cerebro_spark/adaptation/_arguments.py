"""Checks of a campaign's settings that its searches do not make, before a batch is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import SparkBackend
from optimizer.adaptation import Costs
from optimizer.errors import nearest
from optimizer.space import Space
from udfs.adaptation import Augmentation
from udfs.store import Store

__all__ = ["check_arguments"]

_ERRORS = ("drop", "raise")
_SWITCHES = ("materialise", "fuse", "joint", "warm_start", "progress")
_OBJECTS: tuple[tuple[str, type, str], ...] = (
    ("backend", SparkBackend, "a SparkBackend(spark, num_workers=2)"),
    ("store", Store, "a Store, as Store.from_uri('file:///data/cerebro')"),
)
_NUMBERS = (
    ("max_records", 1, None),
    ("disk_bytes", 0, None),
    ("memory_bytes", 1 << 20, None),
    ("workspace_bytes", 0, None),
    ("image_size", 1, None),
    ("replicas", 1, None),
    ("seed", 0, 2**63),
)
_OPTIONAL = ("memory_bytes", "image_size", "replicas")


def check_arguments(given: Mapping[str, Any]) -> None:
    """Check types and ranges of settings.

    Parameters
    ----------
    given : mapping of str to object
        Settings of an :class:`Adaptation`, by name.

    Raises
    ------
    InvalidArgumentError
        The message names the setting, its value and what it may be.
    """
    for name, kind, what in _OBJECTS:
        if not isinstance(given[name], kind):
            raise _refused(name, given[name], what)
    _check_numbers(given)
    for name in _SWITCHES:
        if not isinstance(given[name], bool):
            raise _refused(name, given[name], "True or False")
    if given["costs"] is not None and not isinstance(given["costs"], Costs):
        raise _refused("costs", given["costs"], "None, to measure them, or Costs(flops_per_second=, bytes_per_second=)")
    if given["augmentation"] is not None and not isinstance(given["augmentation"], Augmentation):
        raise _refused("augmentation", given["augmentation"], "None, or Augmentation(fn, copies=4)")
    if given["errors"] not in _ERRORS:
        close = nearest(str(given["errors"]), _ERRORS)
        raise InvalidArgumentError(f"errors={given['errors']!r}{close}; one of: {', '.join(_ERRORS)}")
    if isinstance(given["search_space"], str) or not isinstance(given["search_space"], (Mapping, Sequence, Space)):
        raise _refused("search_space", given["search_space"], "values by name, a sequence of such mappings, or a Space")
    _check_metrics(given)
    _check_columns(given)


def _check_numbers(given: Mapping[str, Any]) -> None:
    for name, least, limit in _NUMBERS:
        value = given[name]
        if value is None and name in _OPTIONAL:
            continue
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < least or (limit is not None and value >= limit):
            raise _refused(name, value, f"a whole number from {least} on" + (f", below {limit}" if limit else ""))
    share = given["test_fraction"]
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise _refused("test_fraction", share, "the share held out of training, from 0 to less than 1")


def _check_metrics(given: Mapping[str, Any]) -> None:
    for name, value in (("metric", given["metric"]), ("mode", given["mode"])):
        if value is None and name == "mode":
            continue
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise _refused(name, value, "a word, or a sequence of words where several metrics decide")


def _check_columns(given: Mapping[str, Any]) -> None:
    features = given["feature_columns"]
    groups: Mapping[str, Any] = features if isinstance(features, Mapping) else {"feature_columns": features}
    if not groups:
        raise _refused("feature_columns", features, "at least one input")
    for name, columns in {**groups, "label_columns": given["label_columns"]}.items():
        listed = isinstance(columns, Sequence) and not isinstance(columns, (str, bytes))
        if not listed or not columns or not all(isinstance(column, str) for column in columns):
            what = f"a sequence of names; write [{columns!r}]" if isinstance(columns, str) else "a sequence of names"
            raise _refused(name, columns, what)
    for name in ("id_column", "weight_column"):
        column = given[name]
        if not isinstance(column, str) and not (column is None and name == "weight_column"):
            raise _refused(name, column, "the name of one column")
    record, labels, weight = given["id_column"], list(given["label_columns"]), given["weight_column"]
    named = [record, *labels, *([] if weight is None else [weight])]
    if len(set(named)) < len(named):
        raise InvalidArgumentError(
            f"id_column={record!r} is a label or the weight too: give it a column of its own"
            if named.count(record) > 1
            else f"label_columns={labels!r} and weight_column={weight!r}: name each column once"
        )


def _refused(name: str, value: object, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name}={value!r}: {what}")
