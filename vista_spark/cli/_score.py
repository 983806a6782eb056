"""``vista score``: a table with the predictions of a compiled pipeline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import StringType
from rich.console import Console

from optimizer.compiling import BACKENDS, STRATEGIES
from udfs.cli import (
    Json,
    Master,
    TableFormat,
    choice,
    comma_separated,
    out_folder,
    print_json,
    refused_before_spark,
)
from udfs.driver import check_file_columns, check_present, check_rows, file_columns, is_here, quoted, read_table
from vista_spark.cli._model_file import compiled_of_file
from vista_spark.cli._options import Table, check_new_folder, start_spark
from vista_spark.compiling import CompiledPipeline, TensorPipeline
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["score_command"]

_CONSOLE = Console(stderr=True)
_ERROR = "error"


def score_command(
    model: Annotated[Path, typer.Argument(help="File that `vista compile` wrote, or a model file that it accepts.")],
    table: Table,
    out: Annotated[
        Path,
        typer.Option(
            help="The table with its predictions: a new folder of Parquet.", parser=out_folder, metavar="FOLDER"
        ),
    ],
    features: Annotated[
        str | None,
        typer.Option(help="Columns in the model's order, with commas; the names that it was fitted on by default."),
    ] = None,
    table_format: TableFormat = None,
    errors: Annotated[
        str,
        typer.Option(
            help="A row that the model refuses: null (and the reason in a column `error`), drop or raise.",
            parser=choice("null", "drop", "raise"),
            metavar="ERRORS",
        ),
    ] = "null",
    tree_strategy: Annotated[
        str, typer.Option(help="Strategy that runs trees.", parser=choice("auto", *STRATEGIES), metavar="STRATEGY")
    ] = "auto",
    backend: Annotated[
        str, typer.Option(help="Backend that runs the program.", parser=choice(*BACKENDS), metavar="BACKEND")
    ] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Rows per run of the program.")] = 8192,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Add the predictions of a model file to a table, on executors that have no training library."""
    with refused_before_spark():
        check_new_folder(out)
        compiled = CompiledPipeline(compiled_of_file(model).program, tree_strategy=tree_strategy, backend=backend)
        named = comma_separated(features)
        _check_named(compiled, named, model)
        stage = TensorPipeline(compiled=compiled, inputCols=named, errors=errors, batchSize=batch_size)
        if errors == "null":
            stage.setErrorCol(_ERROR)
        if is_here(table, master):
            present = file_columns(table, "--table", table_format)
            if present is not None:
                check_file_columns(table, named or compiled.columns_in(present) or [], "--table", table_format)
                _check_free(present, compiled, errors)
                check_rows(table, "--table", table_format)
    began = time.monotonic()
    spark = start_spark(master, _CONSOLE)
    rows = read_table(spark, table, table_format)
    reads = named or compiled.columns_in(rows.columns) or []
    check_present(rows, reads, "--table")
    scored = _plain(stage.transform(_as_numbers(rows, [reads[place] for place in sorted(compiled.program.numeric)])))
    scored.write.parquet(str(out))
    written = spark.read.parquet(str(out))
    refused = F.count(_ERROR) if errors == "null" else F.lit(0)
    counts = written.agg(F.count("*").alias("rows"), refused.alias("refused")).collect()[0]
    facts = {"out": str(out), "rows": counts["rows"], "refused": counts["refused"]}
    facts |= {"columns": written.columns, "seconds": round(time.monotonic() - began, 2)}
    spark.stop()
    if as_json:
        print_json(facts)
        return
    why = (
        f"; {facts['refused']:,} that the model refuses have nulls, and the reason in {_ERROR!r}"
        if facts["refused"]
        else ""
    )
    typer.echo(f"{out}: {facts['rows']:,} rows with {', '.join(_added(compiled))}{why}")


def _check_named(compiled: CompiledPipeline, named: Sequence[str] | None, model: Path) -> None:
    """Validate ``--features`` against the model.

    Raises
    ------
    ColumnError
        The model knows no names and none are given, or their number is another one.
    """
    width = compiled.program.width
    if named is None and compiled.columns is None:
        raise ColumnError(
            f"{model} takes {width} columns and does not know their names: name them in its order with --features"
        )
    if named is not None and len(named) != width:
        raise ColumnError(f"--features must name the {width} columns of {model}, got {len(named)}.")


def _as_numbers(table: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Columns of numbers without a value, which separated values give as texts, as columns of missing numbers."""
    texts = [name for name in columns if isinstance(table.schema[name].dataType, StringType)]
    if not texts:
        return table
    counts = table.agg(*(F.count(quoted(name)).alias(str(place)) for place, name in enumerate(texts))).collect()[0]
    empty = {
        name: F.col(quoted(name)).try_cast("double") for name, count in zip(texts, counts, strict=True) if not count
    }
    return table.withColumns(empty) if empty else table


def _added(compiled: CompiledPipeline) -> list[str]:
    """Return the columns that TensorPipeline adds, by their default names."""
    names = {"predict": "prediction", "predict_proba": "probability", "transform": "output"}
    return [names[output] for output in compiled.outputs if output in names]


def _check_free(columns: Sequence[str], compiled: CompiledPipeline, errors: str) -> None:
    present = {*_added(compiled), *([_ERROR] if errors == "null" else [])} & set(columns)
    if present:
        raise ColumnError(f"--table has columns {', '.join(sorted(present))}, which are to be added: rename them first")


def _plain(scored: DataFrame) -> DataFrame:
    """Return the vectors of Spark ML as arrays, which every reader of Parquet knows."""
    for field in scored.schema:
        if isinstance(field.dataType, VectorUDT):
            scored = scored.withColumn(field.name, vector_to_array(scored[field.name]))
    return scored
