"""Command ``cerebro ablate``: train a network without each of its parts, and write the effects of the parts.

The file is a Python file with ``trainer_fn``, the parts in ``features``, ``modules`` or ``params``, and settings of
:class:`cerebro_spark.Ablation`.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table as RichTable

from cerebro_spark import Ablation, SparkBackend, Store
from cerebro_spark.cli._options import BACKEND, RENAMED, TABLES, StoreUri
from cerebro_spark.cli._search_file import ablation_settings, load_search
from cerebro_spark.cli._table_file import check_table, feature_names, labels_and_weight
from cerebro_spark.hopper import IF_BEGUN
from udfs.cli import (
    Json,
    Master,
    OptionGroup,
    OutFolder,
    TableFormat,
    choice,
    ended_by_interrupt,
    print_json,
    print_table,
    refused_before_spark,
    with_options,
)
from udfs.driver import check_place, launch, read_table, track_into
from udfs.names import check_name

if TYPE_CHECKING:
    from cerebro_spark import AblationResult

__all__ = ["ablate_command"]

_SETTINGS = ["num_epochs", "repeats", "confidence", "feature_columns", "label_columns", "weight_column", "metric"]


@with_options(
    workers=BACKEND,
    common=OptionGroup(Ablation, ["errors", "seed", "experiment"], defaults={"experiment": "ablation"}),
    options=OptionGroup(Ablation, _SETTINGS, overrides=RENAMED, defaults=dict.fromkeys(_SETTINGS)),
)
def ablate_command(
    ablation: Annotated[Path, typer.Argument(help="Python file with trainer_fn and features, modules or params.")],
    out: OutFolder,
    table: Annotated[str, typer.Option(help=f"Data: {TABLES}.")],
    workers: dict[str, Any],
    common: dict[str, Any],
    options: dict[str, Any],
    table_format: TableFormat = None,
    store: StoreUri = None,
    run_id: Annotated[str, typer.Option(help="Name of the run in the store.")] = "ablation",
    if_begun: Annotated[
        str,
        typer.Option(
            help="What to do if the store has the run: end with an error (error), continue it (resume), or continue it "
            "after its driver has stopped (take_over).",
            parser=choice(*IF_BEGUN),
            metavar="WHAT",
        ),
    ] = "error",
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Train a network without each of its parts, several times, and compare the results."""
    with refused_before_spark():
        check_name(run_id, "a run")
        module = load_search(ablation, ("trainer_fn",))
        settings = ablation_settings(module, options)
        run_store = Store.from_uri(store or str((out / "store").resolve()))
        make = partial(Ablation, store=run_store, trainer_fn=module.trainer_fn, **settings, **common)
        # Check the settings before Spark starts; the session is known later.
        absent: Any = None
        make(backend=SparkBackend(absent, **workers))
        columns = [*feature_names(settings["feature_columns"]), *labels_and_weight(settings)]
        check_table(table, [] if hasattr(module, "convert_table") else columns, "--table", master, table_format)
        check_place(str(out))

    def remedy() -> str:
        return f"the same command with --if-begun resume continues run {run_id}"

    with ended_by_interrupt(remedy):
        with Console(stderr=as_json).status("starting Spark"):
            spark = launch(master, {"spark.log.level": "ERROR"}, name="cerebro")
        df = read_table(spark, table, table_format)
        out.mkdir(parents=True, exist_ok=True)
        track_into(out, common["experiment"])
        result = make(backend=SparkBackend(spark, **workers)).fit(
            getattr(module, "convert_table", lambda rows: rows)(df), run_id=run_id, if_begun=if_begun
        )
        _write(cast("AblationResult", result), out, as_json=as_json)


def _write(result: AblationResult, out: Path, *, as_json: bool) -> None:
    """Write the files of an ablation, and print its effects."""
    effects = result.table
    effects.to_csv(out / "effects.csv", index=False)
    result.to_pandas().to_csv(out / "trials.csv", index=False)
    result.plot().savefig(out / "effects.png", dpi=120)
    result.curves().savefig(out / "learning_curves.png", dpi=120)
    (out / "run.txt").write_text(result.explain() + "\n")
    shown = RichTable("rank", "part", "verdict", "effect", "interval")
    for row in effects.to_dict("records"):
        rank = "" if row["verdict"] != "worse without" else str(row["rank"])
        interval = f"{row['low']:+.4f} to {row['high']:+.4f}"
        shown.add_row(rank, row["part"], row["verdict"], f"{row['effect']:+.4f}", interval)
    print_table(shown, Console(stderr=as_json), wrapped=True)
    typer.echo(result.explain(), err=as_json)
    if as_json:
        # Numbers that are not finite become null.
        plain = json.loads(effects.to_json(orient="records", double_precision=15))
        print_json({"run_id": result.run_id, "effects": plain, "out": str(out)})
        return
    typer.echo(f"files in {out}; run {result.run_id}")
