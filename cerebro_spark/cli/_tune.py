"""``cerebro tune``: many configurations over one table, from a file of a search to pictures and a model."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import cerebro_spark
from cerebro_spark import GridSearch, Selection, SparkBackend, Store
from cerebro_spark.cli._options import BACKEND, CHOICES, RENAMED, TABLES, StoreUri
from cerebro_spark.cli._search_file import PROCEDURES, load_search, search_settings
from cerebro_spark.cli._selection_files import write_selection
from cerebro_spark.cli._table_file import check_table, feature_names, labels_and_weight
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import Journal
from optimizer.arguments import choice_error
from udfs.driver import check_place, launch, read_table, track_into
from udfs.driver.command import (
    Json,
    Master,
    OutFolder,
    TableFormat,
    choice,
    ended_by_interrupt,
    refused_before_spark,
)
from udfs.driver.options import OptionGroup, with_options
from udfs.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

__all__ = ["tune_command"]

_SEARCHES = [getattr(cerebro_spark, name) for name in PROCEDURES.values()]

# Settings that the file may have, too; an option wins.
_NAMED = [
    *("feature_columns", "label_columns", "weight_column", "num_epochs", "num_configurations", "population"),
    *("max_epochs", "eta", "max_configurations", "max_total_epochs", "max_seconds", "price", "max_cost"),
    *("sampler", "concurrency", "keep", "metric", "test_fraction", "num_shards"),
]
# Several procedures share these, each with its own description.
_OVERRIDES: dict[str, dict[str, Any]] = {
    "num_epochs": {
        "min": 1,
        "help": "Epochs (grid, random, pbt, evolution); the file's num_epochs by default, 10 for a grid.",
    },
    "num_configurations": {"help": "Configurations to draw (random, halving, evolution)."},
    "population": {"help": "Configurations at any time (pbt), or parents (evolution)."},
    "max_epochs": {"help": "Epochs of the best configurations (halving, hyperband, asha)."},
    "eta": {"help": "Reduction factor: one in eta configurations continues (halving, hyperband, asha); 3 by default."},
    "sampler": {"help": "Sampler of configurations (random, halving, hyperband, asha): random, tpe or nsgaii."},
    "concurrency": {"help": "Configurations that train at the same time (random, asha)."},
}


@with_options(
    workers=BACKEND,
    common=OptionGroup(
        GridSearch,
        ["replicas", "schedule", "errors", "seed", "experiment"],
        overrides=CHOICES,
        defaults={"experiment": "model-selection"},
    ),
    named=OptionGroup(_SEARCHES, _NAMED, overrides=RENAMED | _OVERRIDES, defaults=dict.fromkeys(_NAMED)),
)
def tune_command(
    search: Annotated[Path, typer.Argument(help="Python file with trainer_fn and search_space.")],
    out: OutFolder,
    workers: dict[str, Any],
    common: dict[str, Any],
    named: dict[str, Any],
    table: Annotated[str | None, typer.Option(help=f"Data: {TABLES}; not needed with --resume.")] = None,
    table_format: TableFormat = None,
    store: StoreUri = None,
    procedure: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(PROCEDURES)}; the file's by default, or grid.",
            parser=choice(*PROCEDURES),
            metavar="PROCEDURE",
        ),
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run in the store.")] = None,
    resume: Annotated[str | None, typer.Option(help="Run to continue.")] = None,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Train configurations of a search over one table, in parallel, and keep the best."""
    with refused_before_spark():
        if run_id is not None:
            check_name(run_id, "a run")
        module = load_search(search)
        place = Store.from_uri(store or str((out / "store").resolve()))
        begun = None if resume is None else Journal(place, resume).spec()
        kind = getattr(cerebro_spark, begun.procedure if begun else _search_class(procedure, module))
        make_backend: Callable[[Any], SparkBackend] = partial(SparkBackend, **workers)
        if begun is not None:
            common["seed"] = begun.seed
        make_search = partial(
            kind, store=place, trainer_fn=module.trainer_fn, search_space=module.search_space, **common
        )
        settings: dict[str, Any] = {}
        is_grid = kind is cerebro_spark.GridSearch
        if begun is None or not is_grid:
            settings = search_settings(module, named, kind)
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
            assert table is not None
            df = read_table(spark, table, table_format)
            others = labels_and_weight(settings)
            settings.setdefault("feature_columns", [name for name in df.columns if name not in others])
        out.mkdir(parents=True, exist_ok=True)
        track_into(out, common["experiment"])
        if resume is not None and is_grid:
            selection = Selection.resume(
                place,
                resume,
                backend=backend,
                trainer_fn=module.trainer_fn,
                num_epochs=named.get("num_epochs"),
                experiment=common["experiment"],
            )
        elif resume is not None:
            selection = make_search(backend=backend, **{"feature_columns": (), **settings}).resume(resume)
        else:
            selection = make_search(backend=backend, **settings).fit(df, run_id=run)
        write_selection(selection, out, as_json=as_json)


def _search_class(procedure: str | None, module: ModuleType) -> str:
    name = procedure or getattr(module, "procedure", "grid")
    if name not in PROCEDURES:
        raise InvalidArgumentError(choice_error(f"procedure of {module.__file__}", name, PROCEDURES))
    return PROCEDURES[name]


def _check_table(table: str | None, settings: Mapping[str, Any], master: str | None, form: str | None) -> None:
    if table is None:
        raise InvalidArgumentError("--table must name the data, unless a run is resumed.")
    columns = [*feature_names(settings.get("feature_columns", ())), *labels_and_weight(settings)]
    check_table(table, columns, "--table", master, form)
