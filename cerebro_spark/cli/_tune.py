"""``cerebro tune``: many configurations over one table, from a file of a search to pictures and a model."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cerebro_spark.cli._options import (
    TABLES,
    BadRows,
    Encrypt,
    Labels,
    Metric,
    NumWorkers,
    Schedule,
    StoreUri,
    Weight,
    metric_names,
)
from cerebro_spark.cli._search_file import PROCEDURES, load_search, search_settings
from cerebro_spark.cli._selection_files import write_selection
from cerebro_spark.cli._table_file import check_table, feature_names, labels_and_weight
from cerebro_spark.errors import InvalidArgumentError
from optimizer.errors import nearest
from optimizer.hopper import POLICIES
from udfs.driver.command import (
    Device,
    Json,
    Master,
    OutFolder,
    TableFormat,
    choice,
    comma_separated,
    ended_by_interrupt,
    refused_before_spark,
)
from udfs.names import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

__all__ = ["tune_command"]


def tune_command(
    search: Annotated[Path, typer.Argument(help="A Python file with trainer_fn and search_space.")],
    out: OutFolder,
    table: Annotated[str | None, typer.Option(help=f"The data: {TABLES}; not needed with --resume.")] = None,
    table_format: TableFormat = None,
    store: StoreUri = None,
    features: Annotated[
        str | None, typer.Option(help="Feature columns, with commas; every one but labels and weights by default.")
    ] = None,
    labels: Labels = None,
    weight: Weight = None,
    procedure: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(PROCEDURES)}; the file's by default, or grid.",
            parser=choice(*PROCEDURES),
            metavar="PROCEDURE",
        ),
    ] = None,
    num_epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Epochs (grid, random, pbt, evolution); the file's num_epochs by default, a grid's is 10."
        ),
    ] = None,
    num_configurations: Annotated[
        int | None, typer.Option(min=1, help="Configurations to draw (random, halving, evolution).")
    ] = None,
    population: Annotated[
        int | None, typer.Option(min=2, help="Configurations at any time (pbt), or to be parents (evolution).")
    ] = None,
    max_epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of the best configurations (halving, hyperband, asha).")
    ] = None,
    eta: Annotated[
        int | None, typer.Option(min=2, help="One in so many goes on (halving, hyperband, asha); 3 by default.")
    ] = None,
    max_configurations: Annotated[int | None, typer.Option(min=1, help="Limit of the whole search.")] = None,
    max_total_epochs: Annotated[int | None, typer.Option(min=1, help="Limit of the whole search.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Limit of the whole search.")] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Of a worker for an hour, for --max-cost.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Limit of the whole search.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="Who draws (random, halving, hyperband, asha): random, tpe or nsgaii.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Configurations beside each other (random, asha).")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="States that stay in the store: last, best, epochs; the file's by default, or last.",
            parser=choice("last", "best", "epochs"),
            metavar="KEEP",
        ),
    ] = None,
    metric: Metric = None,
    test_fraction: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of rows held out for the metric; 0.25 by default.")
    ] = None,
    num_shards: Annotated[
        int | None, typer.Option(min=1, help="Shards of the data; one per worker by default.")
    ] = None,
    num_workers: NumWorkers = 2,
    replicas: Annotated[int, typer.Option(min=1, help="Workers that keep each shard.")] = 1,
    schedule: Schedule = POLICIES[0],
    errors: BadRows = "drop",
    device: Device = "auto",
    encrypt: Encrypt = None,
    seed: Annotated[int, typer.Option(help="Of shuffles, splits, initial weights and visits.")] = 0,
    run_id: Annotated[str | None, typer.Option(help="Name of the run in the store.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this run.")] = None,
    experiment: Annotated[str, typer.Option(help="MLflow experiment.")] = "model-selection",
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Train configurations of a search over one table, in parallel, and keep the best."""
    import cerebro_spark  # `--help` is not to wait
    from cerebro_spark import Selection, SparkBackend, Store
    from cerebro_spark.hopper import Journal
    from udfs.driver import check_place, launch, read_table, track_into

    with refused_before_spark():
        if run_id is not None:
            check_name(run_id, "a run")
        module = load_search(search)
        place = Store.from_uri(store or str((out / "store").resolve()))
        begun = None if resume is None else Journal(place, resume).spec()
        kind = getattr(cerebro_spark, begun.procedure if begun else _search_class(procedure, module))
        make_backend = partial(SparkBackend, num_workers=num_workers, device=device, encrypt=encrypt)
        make_search = partial(
            kind,
            store=place,
            trainer_fn=module.trainer_fn,
            search_space=module.search_space,
            replicas=replicas,
            schedule=schedule,
            errors=errors,
            seed=begun.seed if begun else seed,
            experiment=experiment,
        )
        given = {
            "feature_columns": comma_separated(features),
            "label_columns": comma_separated(labels),
            "weight_column": weight,
            "num_epochs": num_epochs,
            "num_configurations": num_configurations,
            "population": population,
            "max_epochs": max_epochs,
            "eta": eta,
            "max_configurations": max_configurations,
            "max_total_epochs": max_total_epochs,
            "max_seconds": max_seconds,
            "keep": keep,
            "price": price,
            "max_cost": max_cost,
            "sampler": sampler,
            "concurrency": concurrency,
            "metric": metric_names(metric),
            "test_fraction": test_fraction,
            "num_shards": num_shards,
        }
        settings: dict[str, Any] = {}
        is_grid = kind is cerebro_spark.GridSearch
        if begun is None or not is_grid:
            settings = search_settings(module, given, kind)
            # Sessions and columns come later; the rest is checked now.
            absent: Any = None
            make_search(backend=make_backend(absent), **{"feature_columns": (), **settings})
        if begun is None:
            _check_table(table, settings, master, table_format)
        check_place(str(out))
    run = resume or run_id or f"run-{uuid.uuid4().hex[:12]}"

    def remedy() -> str:
        if Journal(place, run).begun:
            return f"run {run} goes on with: cerebro tune {search} --resume {run} --out {out}"
        return "no run had begun; the same command uses the rows that were prepared"

    with ended_by_interrupt(remedy):
        with Console(stderr=as_json).status("starting Spark"):
            spark = launch(master, {"spark.log.level": "ERROR"}, name="cerebro")
        backend = make_backend(spark)
        if resume is None:
            assert table is not None  # seen above, before Spark
            df = read_table(spark, table, table_format)
            others = labels_and_weight(settings)
            settings.setdefault("feature_columns", [name for name in df.columns if name not in others])
        out.mkdir(parents=True, exist_ok=True)
        track_into(out, experiment)
        if resume is not None and is_grid:
            selection = Selection.resume(
                place,
                resume,
                backend=backend,
                trainer_fn=module.trainer_fn,
                num_epochs=num_epochs,
                experiment=experiment,
            )
        elif resume is not None:
            selection = make_search(backend=backend, **{"feature_columns": (), **settings}).resume(resume)
        else:
            selection = make_search(backend=backend, **settings).fit(df, run_id=run)
        write_selection(selection, out, as_json=as_json)


def _search_class(procedure: str | None, module: ModuleType) -> str:
    name = procedure or getattr(module, "procedure", "grid")
    if name not in PROCEDURES:
        known = ", ".join(PROCEDURES)
        raise InvalidArgumentError(
            f"{module.__file__}: procedure={name!r}{nearest(str(name), PROCEDURES)}; one of: {known}"
        )
    return PROCEDURES[name]


def _check_table(table: str | None, settings: Mapping[str, Any], master: str | None, form: str | None) -> None:
    if table is None:
        raise InvalidArgumentError("--table names the data, unless a run is resumed")
    columns = [*feature_names(settings.get("feature_columns", ())), *labels_and_weight(settings)]
    check_table(table, columns, "--table", master, form)
