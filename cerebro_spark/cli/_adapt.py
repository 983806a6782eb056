"""``cerebro adapt``: ways to adapt a pre-trained network, batch of labels by batch, and what to label next."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import pyarrow.parquet as pq
import typer
from rich.console import Console

from cerebro_spark import Adaptation, GridSearch, SparkBackend, Store
from cerebro_spark.adaptation import CycleResult, check_how, cycles_figure
from cerebro_spark.cli._options import BACKEND, CHOICES, RENAMED, TABLES, StoreUri, command_line, typed_options
from cerebro_spark.cli._search_file import adaptation_settings, load_search
from cerebro_spark.cli._selection_files import write_selection
from cerebro_spark.cli._table_file import check_table, feature_names, labels_and_weight
from cerebro_spark.errors import InvalidArgumentError, RunError
from optimizer.sizes import number_of_bytes
from udfs.cli import (
    Json,
    Master,
    OptionGroup,
    OutFolder,
    TableFormat,
    ended_by_interrupt,
    print_json,
    refused_before_spark,
    with_options,
)
from udfs.driver import check_place, launch, read_table, track_into

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.adaptation import Cycle

__all__ = ["adapt_command"]

# In the place of features until a table says which there are; a cycle that is resumed has its own.
_UNREAD = ("every other column",)
_ASK, _HOW = 50, "least_confidence"

# Settings of the adaptation that are both options and names in the file of the campaign; an option takes precedence.
_SETTINGS = [
    *("id_column", "feature_columns", "label_columns", "weight_column", "max_records", "disk_bytes", "memory_bytes"),
    *("replicas", "metric", "test_fraction"),
]
_OVERRIDES: dict[str, dict[str, Any]] = {
    "id_column": {"flags": ("--id",)},
    "max_records": {"min": 1},
    "disk_bytes": {
        "flags": ("--disk",),
        "parser": number_of_bytes,
        "metavar": "SIZE",
        "help": "Disk for stored layers, as 25g, the default; 0 stores none.",
    },
    "memory_bytes": {
        "flags": ("--memory",),
        "parser": number_of_bytes,
        "metavar": "SIZE",
        "help": "Memory of a worker for models that train together, as 10g; a quarter of this machine's by default.",
    },
}


@with_options(
    workers=BACKEND,
    common=OptionGroup(
        GridSearch,
        ["schedule", "errors", "seed", "experiment"],
        overrides=CHOICES,
        defaults={"experiment": "adaptation"},
    ),
    options=OptionGroup(Adaptation, _SETTINGS, overrides=RENAMED | _OVERRIDES, defaults=dict.fromkeys(_SETTINGS)),
)
def adapt_command(
    campaign: Annotated[Path, typer.Argument(help="Python file with trainer_fn and search_space.")],
    out: OutFolder,
    workers: dict[str, Any],
    common: dict[str, Any],
    options: dict[str, Any],
    context: typer.Context,
    table: Annotated[
        list[str] | None,
        typer.Option(help=f"Newly labelled records: {TABLES}. A cycle; give it again for another one after it."),
    ] = None,
    table_format: TableFormat = None,
    store: StoreUri = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the campaign in the store; that of the file by default.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(help="Records without labels. <out>/ask.parquet has the records to label next."),
    ] = None,
    how: Annotated[
        str | None, typer.Option(help="least_confidence (the default), margin, entropy, diversity or random.")
    ] = None,
    ask: Annotated[int | None, typer.Option(min=1, help=f"Records of the pool to ask for; {_ASK} by default.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="First continue the last cycle, whether it stopped or is over.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print the plan of the next cycle, and train nothing.")] = False,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Adapt a pre-trained network in many ways, again after each batch of labels, and rank what to label next.

    The campaign is in the store: the next batch is another call with the same --out and --name.
    """
    tables = table or []
    with refused_before_spark():
        module = load_search(campaign)
        campaign_store = Store.from_uri(store or str((out / "store").resolve()))
        make_backend: Callable[[Any], SparkBackend] = partial(SparkBackend, **workers)
        settings = adaptation_settings(module, options)
        make = partial(
            Adaptation,
            store=campaign_store,
            trainer_fn=module.trainer_fn,
            search_space=module.search_space,
            name=name or campaign.stem,
            **common,
        )
        # Check the settings before Spark starts; the session and the columns are known later.
        absent: Any = None
        before = make(backend=make_backend(absent), **{"feature_columns": _UNREAD, **settings})
        _check_order(tables, before, table_format=table_format, pool=pool, how=how, ask=ask, resume=resume, plan=plan)
        _check_tables(tables, pool, settings, master, table_format)
        check_place(str(out))

    def remedy() -> str:
        now = make(backend=make_backend(absent), **{"feature_columns": _UNREAD, **settings})
        new_cycles = len(now.run_ids) - len(before.run_ids)
        if not new_cycles and not resume:
            return "no cycle was started; the same command starts it"
        is_read = bool(tables[new_cycles:]) or pool is not None
        typed = typed_options(
            context, ["table", "out", "name", "store", "pool", "resume", *(() if is_read else ("table_format",))]
        )
        values = [
            *(("--table", each) for each in tables[new_cycles:]),
            *(("--out", str(out)), ("--name", name), ("--store", store), ("--pool", pool)),
            *typed,
        ]
        return f"continue adaptation {before.name} with: {command_line(['adapt', str(campaign), '--resume'], values)}"

    with ended_by_interrupt(remedy):
        with Console(stderr=as_json).status("starting Spark"):
            spark = launch(master, {"spark.log.level": "ERROR"}, name="cerebro")
        batches = [read_table(spark, each, table_format) for each in tables]
        if batches:
            settings.setdefault("feature_columns", _features(batches[0], settings))
        running = make(backend=make_backend(spark), **{"feature_columns": _UNREAD, **settings})
        if plan:
            text = running.explain(batches[0] if batches and not before.run_ids else None)
            if as_json:
                print_json({"plan": text})
            else:
                typer.echo(text)
            return
        out.mkdir(parents=True, exist_ok=True)
        track_into(out, common["experiment"])
        cycle = running.resume() if resume else None
        for batch in batches:
            if cycle is not None:
                _write_cycles(cycle, before.run_ids, out)
            cycle = running.fit(batch)
        assert cycle is not None
        _write_cycles(cycle, before.run_ids, out)
        write_selection(cycle, out, as_json=as_json)
        if pool is not None:
            _write_wanted(
                running.score(read_table(spark, pool, table_format, "--pool"), how or _HOW, limit=ask or _ASK),
                out,
                as_json=as_json,
            )


def _check_order(
    tables: Sequence[str],
    before: Adaptation,
    *,
    table_format: str | None,
    pool: str | None,
    how: str | None,
    ask: int | None,
    resume: bool,
    plan: bool,
) -> None:
    """Check that the options can be used together, and in this state of the campaign."""
    if table_format is not None and not tables and pool is None:
        raise InvalidArgumentError(
            f"--table-format must be given with --table or --pool, which it describes, got {table_format} alone."
        )
    if resume and not before.run_ids:
        raise RunError(f"{before.store.uri} has no cycle of an adaptation {before.name!r}: begin one with --table.")
    if plan and (resume or pool is not None):
        raise InvalidArgumentError(
            f"--plan must be given without --{'resume' if resume else 'pool'}, for it trains and scores nothing."
        )
    if not tables and not resume and not (plan and before.run_ids):
        raise InvalidArgumentError(
            "--table must name newly labelled records, unless --resume continues the last cycle."
        )
    for option, value in (("--how", how), ("--ask", ask)):
        if value is not None and pool is None:
            raise InvalidArgumentError(
                f"{option} must be given with --pool, which names records without labels, got {option} {value} alone."
            )
    if how is not None:
        check_how(how, ask)


def _check_tables(
    tables: Sequence[str], pool: str | None, settings: Mapping[str, Any], master: str | None, form: str | None
) -> None:
    features = [settings["id_column"], *feature_names(settings.get("feature_columns", ()))]
    for each in tables:
        check_table(each, [*features, *labels_and_weight(settings)], "--table", master, form)
    if pool is not None:
        check_table(pool, features, "--pool", master, form)


def _features(df: DataFrame, settings: Mapping[str, Any]) -> list[str]:
    others = {settings["id_column"], *labels_and_weight(settings)}
    return [name for name in df.columns if name not in others]


def _write_cycles(cycle: Cycle, before: Sequence[str], out: Path) -> None:
    """Write a line a cycle; those of earlier calls stay, for a cycle that was over has nothing to measure."""
    path = out / "cycles.csv"
    lines = {line.run: line for line in cycle.cycles}
    if path.is_file():
        for written in pd.read_csv(path, dtype={"run": str}).to_dict("records"):
            if written["run"] in before:
                lines[written["run"]] = CycleResult(**{str(name): value for name, value in written.items()})
    ordered = [lines[run] for run in sorted(lines)]
    pd.DataFrame(map(asdict, ordered)).to_csv(path, index=False)
    cycles_figure(ordered, cycle.spec.objectives[0].metric).savefig(out / "cycles.png", dpi=120)


def _write_wanted(ranked: DataFrame, out: Path, *, as_json: bool) -> None:
    wanted = ranked.toArrow()
    pq.write_table(wanted, out / "ask.parquet")
    typer.echo(f"to label next: {wanted.num_rows} records in {out / 'ask.parquet'}, the most useful first", err=as_json)
