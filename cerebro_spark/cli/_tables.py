"""``cerebro tables``: a run's record as files, for programs that have no cerebro-spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cerebro_spark.tune import run_tables
from udfs.cli import Json, print_json, refused_before_spark
from udfs.driver import check_place
from udfs.store import Store

__all__ = ["tables_command"]


class _Format(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"


def tables_command(
    store: Annotated[str, typer.Argument(help="URI of the store, or a folder.")],
    run: Annotated[str, typer.Argument(help="Id of the run.")],
    out: Annotated[Path, typer.Option(help="Folder for the files, one per table; it is created.")],
    form: Annotated[_Format, typer.Option("--format", help="Format of the files.")] = _Format.PARQUET,
    as_json: Json = False,
) -> None:
    """Write a run's record as files: configurations, metrics, units, decisions, states, artifacts and others.

    The run may go on meanwhile.
    """
    with refused_before_spark():
        check_place(str(out))
        tables = run_tables(Store.from_uri(store), run)
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        file = out / f"{name}.{form.value}"
        if form is _Format.PARQUET:
            table.to_parquet(file, index=False)
        else:
            table.to_csv(file, index=False)
        typer.echo(f"{len(table):>7} rows  {file}")
    if as_json:
        print_json({"out": str(out), "rows": {name: len(table) for name, table in tables.items()}})
