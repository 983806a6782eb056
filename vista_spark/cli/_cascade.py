"""``vista cascade``: a table answered by a cheap model where it is sure, and by an oracle elsewhere."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pyspark.ml.functions import vector_to_array
from rich.console import Console

from optimizer.cascades import METRICS
from udfs.cli import Json, Master, TableFormat, choice, out_folder, print_json, refused_before_spark
from udfs.driver import check_present, read_table
from vista_spark.cascades import Cascade
from vista_spark.cli._model_file import compiled_of_file
from vista_spark.cli._options import Table, check_new_folder, start_spark
from vista_spark.compiling import CompiledPipeline, TensorPipeline
from vista_spark.errors import InvalidArgumentError

__all__ = ["cascade_command"]

_CONSOLE = Console(stderr=True)


def cascade_command(
    oracle: Annotated[Path, typer.Argument(help="Model file that `vista compile` wrote or accepts: the oracle.")],
    table: Table,
    proxy: Annotated[list[Path], typer.Option(help="Model file of a cheaper model; once per proxy.")],
    out: Annotated[
        Path,
        typer.Option(help="The table with its answers: a new folder of Parquet.", parser=out_folder, metavar="FOLDER"),
    ],
    target: Annotated[float, typer.Option(help="Least value of the metric relative to the oracle.")] = 0.98,
    metric: Annotated[
        str, typer.Option(help="Metric with the target.", parser=choice(*METRICS), metavar="METRIC")
    ] = "accuracy",
    delta: Annotated[float, typer.Option(help="Probability that the target is missed.")] = 0.05,
    positive: Annotated[
        str | None, typer.Option(help="Class that precision and recall count; the oracle's last one by default.")
    ] = None,
    sample: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the table that the thresholds come from.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows that go through the models together.")] = 8192,
    reuse: Annotated[str | None, typer.Option(help="Folder or URI of a store of answers, for later runs.")] = None,
    table_format: TableFormat = None,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Answer the rows of a table by cheap models where they are sure and by an oracle elsewhere, with a guarantee."""
    with refused_before_spark():
        check_new_folder(out)
        models = [compiled_of_file(path) for path in (oracle, *proxy)]
        _check_named(models, (oracle, *proxy))
        try:
            cascade = Cascade(
                oracle=TensorPipeline(compiled=models[0]),
                proxies=[TensorPipeline(compiled=model) for model in models[1:]],
                target=target,
                metric=metric,
                delta=delta,
                batchSize=batch_size,
                seed=seed,
                reuse=reuse,
                positive=_class(positive),
            )
        except TypeError as error:
            raise InvalidArgumentError(f"--{error}") from error
    spark = start_spark(master, _CONSOLE)
    rows = read_table(spark, table, table_format)
    for model in models:
        check_present(rows, model.columns_in(rows.columns) or [], "--table")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the certificate says why
        fitted = cascade.fit(rows.sample(fraction=sample, seed=seed))
    answered = fitted.transform(rows)
    answered.withColumn("probability", vector_to_array(answered["probability"])).write.parquet(str(out))
    counts = {
        row["answered_by"]: row["count"]
        for row in spark.read.parquet(str(out)).groupBy("answered_by").count().collect()
    }
    spark.stop()
    if as_json:
        print_json({"out": str(out), "answered_by": counts, "certificate": asdict(fitted.certificate)})
        return
    typer.echo(fitted.explain())
    shown = ", ".join(f"{count:,} by {name or 'no model'}" for name, count in sorted(counts.items(), key=str))
    typer.echo(f"{out}: {sum(counts.values()):,} rows, {shown}")


def _check_named(models: list[CompiledPipeline], paths: tuple[Path, ...]) -> None:
    """Validate that each model knows the names of its columns."""
    for model, path in zip(models, paths, strict=True):
        if model.columns is None:
            raise InvalidArgumentError(f"{path} must know the names of its columns. Fit the model on a DataFrame.")


def _class(text: str | None) -> str | float | None:
    """Return a class as the number that it is, or as a text."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
