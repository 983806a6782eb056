"""Options that several commands of ``cerebro`` share."""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer.hopper import POLICIES
from udfs.driver.command import choice, comma_separated

__all__ = [
    "TABLES",
    "BadRows",
    "Encrypt",
    "Labels",
    "Metric",
    "NumWorkers",
    "Schedule",
    "StoreUri",
    "Weight",
    "metric_names",
]

TABLES = ".csv or .tsv with a header, .json, .orc, Parquet, or what --table-format says"
"""What a table may be, for the help of options."""

StoreUri = Annotated[
    str | None, typer.Option(help="URI of the store that driver and workers reach; <out>/store by default.")
]
Labels = Annotated[str | None, typer.Option(help="Label columns, with commas.")]
Weight = Annotated[str | None, typer.Option(help="Column with the weights of the rows.")]
Metric = Annotated[
    str | None, typer.Option(help="Metric that decides, or several with commas; the file's by default, or loss.")
]
NumWorkers = Annotated[int, typer.Option(min=1, help="Long-lived tasks that train.")]
Schedule = Annotated[str, typer.Option(help=f"{', '.join(POLICIES)}.", parser=choice(*POLICIES), metavar="SCHEDULE")]
BadRows = Annotated[
    str, typer.Option(help="Bad rows: drop or raise.", parser=choice("drop", "raise"), metavar="ERRORS")
]
Encrypt = Annotated[
    bool | None,
    typer.Option("--encrypt/--no-encrypt", help="TLS between driver and workers; where Spark encrypts by default."),
]


def metric_names(text: str | None) -> str | list[str] | None:
    """Read ``--metric``: one metric, or several with commas; ``None`` stays.

    Examples
    --------
    >>> metric_names("accuracy"), metric_names("accuracy, loss")
    ('accuracy', ['accuracy', 'loss'])
    """
    return comma_separated(text) if text is not None and "," in text else text
