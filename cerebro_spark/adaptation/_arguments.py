"""Checks of a campaign's settings that its searches do not make, before a batch is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import SparkBackend
from optimizer.adaptation import Costs
from optimizer.errors import nearest
from optimizer.space import Space
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Collection

    from cerebro_spark.adaptation._adaptation import Adaptation

__all__ = ["check_arguments", "check_search"]

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
    ("seed", 0, 2**63),
)
_OPTIONAL = ("memory_bytes", "image_size")


def check_arguments(campaign: Adaptation) -> None:
    """Check types and ranges of settings.

    Parameters
    ----------
    campaign : Adaptation

    Raises
    ------
    InvalidArgumentError
        The message names the setting, its value and what it may be.
    """
    given = vars(campaign)
    for name, kind, what in _OBJECTS:
        if not isinstance(given[name], kind):
            raise _refused(name, given[name], what)
    _check_numbers(given)
    for name in _SWITCHES:
        if not isinstance(given[name], bool):
            raise _refused(name, given[name], "True or False")
    if campaign.costs is not None and not isinstance(campaign.costs, Costs):
        raise _refused("costs", campaign.costs, "None, to measure them, or Costs(flops_per_second=, bytes_per_second=)")
    if campaign.errors not in _ERRORS:
        close = nearest(str(campaign.errors), _ERRORS)
        raise InvalidArgumentError(f"errors={campaign.errors!r}{close}; one of: {', '.join(_ERRORS)}")
    space: Any = campaign.search_space
    if isinstance(space, str) or not isinstance(space, (Mapping, Sequence, Space)):
        raise _refused("search_space", space, "values by name, a sequence of such mappings, or a Space")
    _check_metrics(campaign)
    _check_columns(campaign)


def check_search(search: Any, own: Collection[str]) -> None:
    """Check what is to make the searches.

    Parameters
    ----------
    search : object
    own : collection of str
        Settings that the campaign gives to it.

    Raises
    ------
    InvalidArgumentError
        It makes no search, or says what the campaign says.
    """
    if search is None:
        return
    if not callable(search):
        raise _refused("search", search, "what makes a search, as partial(Hyperband, max_epochs=9)")
    twice = sorted(set(own).intersection(search.keywords)) if isinstance(search, partial) else []
    if twice:
        raise InvalidArgumentError(
            f"search has {twice[0]}={search.keywords[twice[0]]!r}, which is the campaign's: give it to Adaptation("
            f"{twice[0]}=...)"
        )


def _check_numbers(given: Mapping[str, Any]) -> None:
    for name, least, limit in _NUMBERS:
        value = given[name]
        if value is None and name in _OPTIONAL:
            continue
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < least or (limit is not None and value >= limit):
            raise _refused(name, value, f"a whole number from {least} on" + (f", below {limit}" if limit else ""))
    share = given["test_fraction"]
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
        raise _refused("test_fraction", share, "the share held out of training, from 0 to less than 1")


def _check_metrics(campaign: Adaptation) -> None:
    for name, value in (("metric", campaign.metric), ("mode", campaign.mode)):
        if value is None and name == "mode":
            continue
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise _refused(name, value, "a word, or a sequence of words where several metrics decide")


def _check_columns(campaign: Adaptation) -> None:
    features = campaign.feature_columns
    groups: Mapping[str, Any] = features if isinstance(features, Mapping) else {"feature_columns": features}
    if not groups:
        raise _refused("feature_columns", features, "at least one input")
    for name, columns in {**groups, "label_columns": campaign.label_columns}.items():
        listed = isinstance(columns, Sequence) and not isinstance(columns, (str, bytes))
        if not listed or not columns or not all(isinstance(column, str) for column in columns):
            what = f"a sequence of names; write [{columns!r}]" if isinstance(columns, str) else "a sequence of names"
            raise _refused(name, columns, what)
    for name in ("id_column", "weight_column"):
        column = getattr(campaign, name)
        if not isinstance(column, str) and not (column is None and name == "weight_column"):
            raise _refused(name, column, "the name of one column")
    columns = [campaign.id_column, *campaign.label_columns]
    columns += [] if campaign.weight_column is None else [campaign.weight_column]
    if len(set(columns)) < len(columns):
        raise InvalidArgumentError(
            f"id_column={campaign.id_column!r} is a label or the weight too: give it a column of its own"
            if columns.count(campaign.id_column) > 1
            else f"label_columns={list(campaign.label_columns)!r} and weight_column={campaign.weight_column!r}: name "
            "each column once"
        )


def _refused(name: str, value: object, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name}={value!r}: {what}")
