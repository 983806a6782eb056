"""Validation of a campaign's settings before a batch is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from cerebro_spark.adaptation._settings import CampaignSettings
from cerebro_spark.errors import InvalidArgumentError
from optimizer.adaptation import Costs
from optimizer.arguments import one_of
from optimizer.space import Space
from udfs.adaptation import Augmentation
from udfs.driver import argument_types, check_types

__all__ = ["check_arguments"]

_ERRORS = ("drop", "raise")
_NUMBERS = (
    ("max_records", 1, None),
    ("disk_bytes", 0, None),
    ("memory_bytes", 1 << 20, None),
    ("workspace_bytes", 0, None),
    ("image_size", 1, None),
    ("replicas", 1, None),
    ("seed", 0, 2**63),
)


def check_arguments(settings: CampaignSettings) -> None:
    """Validate types and ranges of the settings that no search of the campaign validates.

    Raises
    ------
    InvalidArgumentError
        The message names the setting, its value and the requirement.
    """
    # The settings may have changed since the constructor checked their types.
    values = {each.name: getattr(settings, each.name) for each in fields(CampaignSettings)}
    check_types(argument_types(CampaignSettings.__init__.__annotations__), values)
    _check_numbers(settings)
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
    _check_columns(settings)


def _check_numbers(settings: CampaignSettings) -> None:
    for name, least, limit in _NUMBERS:
        value = getattr(settings, name)
        if value is None:
            continue
        if value < least or (limit is not None and value >= limit):
            bound = f" and less than {limit}" if limit else ""
            raise _refused(name, value, f"an integer of at least {least}{bound}")
    if not 0 <= settings.test_fraction < 1:
        raise _refused("test_fraction", settings.test_fraction, "a number of at least 0 and less than 1")


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
