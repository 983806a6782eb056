"""``vista skew``: concentration of the classes of a labelled stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from optimizer.arguments import real
from udfs.cli import Json, Master, TableFormat, picture_file, print_json, refused_before_spark
from udfs.driver import read_table
from vista_spark.cli._options import start_spark
from vista_spark.specialization import class_skew

__all__ = ["skew_command"]

_WINDOWS = (10.0, 60.0, 180.0)


def skew_command(
    labels: Annotated[
        str,
        typer.Argument(help="Labels: .csv or .tsv with a header, .json, .orc, Parquet, or what --table-format says."),
    ],
    label: Annotated[str, typer.Option(help="Column of the labels.")] = "label",
    time: Annotated[str, typer.Option(help="Column of the times: timestamps, or numbers of seconds.")] = "t",
    group: Annotated[
        str | None, typer.Option(help="Column of the streams, such as the camera; one stream by default.")
    ] = None,
    window: Annotated[
        list[float] | None,
        typer.Option(help="Length of the windows in seconds, once per length; 10, 60 and 180 by default."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the distributions.", parser=picture_file, metavar="FILE")
    ] = None,
    table_format: TableFormat = None,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Report the number of labels that make up most of each window of a labelled stream."""
    with refused_before_spark():
        lengths = [real("--window", each, 0, above=True) for each in window or _WINDOWS]
    spark = start_spark(master, Console(stderr=True))
    rows = read_table(spark, labels, table_format, "LABELS")
    skew = class_skew(rows, labelCol=label, orderCol=time, groupCol=group, windows=lengths)
    spark.stop()
    if plot is not None:
        skew.plot().savefig(plot, dpi=100)
    if as_json:
        left_out = [{"window": length, "windows": count} for length, count in skew.left_out.items()]
        print_json({"distributions": skew.to_pandas().to_dict("records"), "left_out": left_out})
        return
    typer.echo(skew.explain())
