"""Validation of a campaign's settings before a batch is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from optimizer.adaptation import Costs
from optimizer.arguments import one_of
from optimizer.space import Space
from udfs.adaptation import Augmentation

if TYPE_CHECKING:
    from cerebro_spark.adaptation._settings import CampaignSettings

__all__ = ["check_arguments"]

_ERRORS = ("drop", "raise")
_SWITCHES = ("materialise", "fuse", "joint", "warm_start", "progress")
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


def check_arguments(settings: CampaignSettings) -> None:
    """Validate types and ranges of the settings that no search of the campaign validates.

    Raises
    ------
    InvalidArgumentError
        The message names the setting, its value and the requirement.
    """
    _check_numbers(settings)
    for name in _SWITCHES:
        if not isinstance(getattr(settings, name), bool):
            raise _refused(name, getattr(settings, name), "True or False")
    costs: Any = settings.costs
    augmentation: Any = settings.augmentation
    if costs is not None and not isinstance(costs, Costs):
        raise _refused("costs", costs, "None, which measures the costs, or Costs(flops_per_second=, bytes_per_second=)")
    if augmentation is not None and not isinstance(augmentation, Augmentation):
        raise _refused("augmentation", augmentation, "None or an Augmentation(fn, copies=4)")
    one_of("errors", settings.errors, _ERRORS)
    space: Any = settings.search_space
    if isinstance(space, str) or not isinstance(space, (Mapping, Sequence, Space)):
        requirement = "a mapping of names to values, a sequence of such mappings, or a Space"
        raise _refused("search_space", space, requirement)
    _check_metrics(settings)
    _check_columns(settings)


def _check_numbers(settings: CampaignSettings) -> None:
    for name, least, limit in _NUMBERS:
        value = getattr(settings, name)
        if value is None and name in _OPTIONAL:
            continue
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not is_whole or value < least or (limit is not None and value >= limit):
            bound = f" and less than {limit}" if limit else ""
            raise _refused(name, value, f"an integer of at least {least}{bound}")
    share = settings.test_fraction
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise _refused("test_fraction", share, "a number of at least 0 and less than 1")


def _check_metrics(settings: CampaignSettings) -> None:
    for name, value in (("metric", settings.metric), ("mode", settings.mode)):
        if value is None and name == "mode":
            continue
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise _refused(name, value, "a string, or a sequence of strings where several metrics decide")


def _check_columns(settings: CampaignSettings) -> None:
    features = settings.feature_columns
    groups: Mapping[str, Any] = features if isinstance(features, Mapping) else {"feature_columns": features}
    if not groups:
        raise _refused("feature_columns", features, "a mapping with at least one input")
    for name, columns in {**groups, "label_columns": settings.label_columns}.items():
        is_listed = isinstance(columns, Sequence) and not isinstance(columns, (str, bytes))
        if not is_listed or not columns or not all(isinstance(column, str) for column in columns):
            remedy = f": write [{columns!r}]" if isinstance(columns, str) else ""
            raise InvalidArgumentError(f"{name} must be a sequence of column names, got {columns!r}{remedy}")
    for name in ("id_column", "weight_column"):
        column = getattr(settings, name)
        if not isinstance(column, str) and not (column is None and name == "weight_column"):
            raise _refused(name, column, "the name of one column")
    record, labels, weight = settings.id_column, list(settings.label_columns), settings.weight_column
    named = [record, *labels, *([] if weight is None else [weight])]
    if named.count(record) > 1:
        raise InvalidArgumentError(
            f"id_column must be a column apart from the labels and the weight, got {record!r}: add a column of ids"
        )
    if len(set(named)) < len(named):
        raise InvalidArgumentError(
            f"label_columns and weight_column must be different columns, got {labels!r} and {weight!r}"
        )


def _refused(name: str, value: object, requirement: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} must be {requirement}, got {value!r}")
