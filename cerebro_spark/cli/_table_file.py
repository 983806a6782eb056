"""Checks of a table that a command reads, before Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.driver import check_file_columns, check_rows, is_here, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["check_table", "feature_names", "labels_and_weight"]


def check_table(table: str, columns: Iterable[str], option: str, master: str | None, form: str | None = None) -> None:
    """Check the columns of a table, and that it has a row; of one that this machine does not see, the name alone.

    Raises
    ------
    InvalidArgumentError
        Its format is not known, or there is none.
    ColumnError
        A column is missing.
    EmptyInputError
        It has no row.
    """
    table_format(table, form, option)
    if is_here(table, master):
        check_file_columns(table, columns, option, form)
        check_rows(table, option, form)


def feature_names(features: Sequence[str] | Mapping[str, Sequence[str]]) -> list[str]:
    """List the columns of all inputs of a network.

    Examples
    --------
    >>> feature_names({"numbers": ["age", "hours"], "words": ["town"]})
    ['age', 'hours', 'town']
    """
    groups = features.values() if hasattr(features, "values") else (features,)
    return [name for group in groups for name in group]


def labels_and_weight(settings: Mapping[str, Any]) -> list[str]:
    """List the columns that training reads and a network does not.

    Examples
    --------
    >>> labels_and_weight({"label_columns": ["income"], "weight_column": "people"})
    ['income', 'people']
    """
    weight = settings.get("weight_column")
    return [*settings["label_columns"], *([] if weight is None else [weight])]
