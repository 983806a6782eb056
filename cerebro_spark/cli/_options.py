"""Options that several commands of ``cerebro`` share."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cerebro_spark import SparkBackend
from optimizer.hopper import POLICIES
from udfs.cli import OptionGroup, choice, comma_separated

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["BACKEND", "CHOICES", "RENAMED", "TABLES", "StoreUri", "command_line", "metric_names", "typed_options"]

TABLES = ".csv or .tsv with a header, .json, .orc, Parquet, or what --table-format says"
"""Formats of a table, for the help of options."""

StoreUri = Annotated[
    str | None, typer.Option(help="URI of the store that driver and workers reach; <out>/store by default.")
]

BACKEND = OptionGroup(
    SparkBackend,
    ["num_workers", "device", "encrypt"],
    overrides={"num_workers": {"min": 1}},
    defaults={"num_workers": 2},
)
"""Options of the workers."""

CHOICES: dict[str, dict[str, Any]] = {
    "schedule": {"parser": choice(*POLICIES), "metavar": "SCHEDULE", "help": f"{', '.join(POLICIES)}."}
}
"""Settings of options with a fixed set of values."""


def metric_names(text: str) -> str | list[str]:
    """Parse ``--metric``: one metric, or several with commas.

    Examples
    --------
    >>> metric_names("accuracy"), metric_names("accuracy, loss")
    ('accuracy', ['accuracy', 'loss'])
    """
    return comma_separated(text) or text if "," in text else text


def command_line(words: Sequence[str], options: Sequence[tuple[str, str | None]]) -> str:
    """Write a command of ``cerebro`` for a shell, without the options whose value is ``None``; ``""`` is a switch.

    Examples
    --------
    >>> command_line(["tune", "search.py"], [("--resume", "first"), ("--out", "my runs"), ("--store", None)])
    "cerebro tune search.py --resume first --out 'my runs'"
    """
    with_values = [word for option, value in options if value is not None for word in (option, value) if word]
    return shlex.join(["cerebro", *words, *with_values])


def typed_options(context: typer.Context, without: Collection[str] = ()) -> list[tuple[str, str | None]]:
    """List the options that a user typed, to write them into a command that goes on.

    Parameters
    ----------
    without : collection of str
        Names of parameters that the other command does not take, or that it gets another value of.

    Returns
    -------
    list of (str, str or None)
        Options with their values; the value of a switch is ``""``.
    """
    options: list[tuple[str, str | None]] = []
    for each in context.command.params:
        source = None if each.name is None else context.get_parameter_source(each.name)
        if each.param_type_name != "option" or each.name in without or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params.get(str(each.name))
        if isinstance(value, bool):
            options.append((each.opts[0] if value else each.secondary_opts[0], ""))
        elif isinstance(value, (list, tuple)):
            options.append((each.opts[0], ",".join(map(str, value))))
        else:
            options.append((each.opts[0], str(value)))
    return options


RENAMED: dict[str, dict[str, Any]] = {
    "feature_columns": {
        "flags": ("--features",),
        "parser": comma_separated,
        "metavar": "NAMES",
        "help": "Feature columns, with commas; every column without another role by default.",
    },
    "label_columns": {
        "flags": ("--labels",),
        "parser": comma_separated,
        "metavar": "NAMES",
        "help": "Label columns, with commas.",
    },
    "weight_column": {"flags": ("--weight",), "help": "Column with the weights of the rows."},
    "metric": {
        "parser": metric_names,
        "metavar": "METRIC",
        "help": "Metric that decides, or several with commas; the file's by default, or loss.",
    },
    "test_fraction": {"help": "Share of the rows that is held out for the metric; 0.25 by default."},
}
"""Settings of the options of a search whose names or values differ from its parameters."""
