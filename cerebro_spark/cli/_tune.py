"""Command ``cerebro tune``: train many configurations on one table, and write their results, plots and best model.

The search file is a Python file with ``trainer_fn``, which creates the model of a configuration, and ``search_space``,
the hyperparameters to try. A procedure is the algorithm that decides which configurations train for how many epochs.
"""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import cerebro_spark
from cerebro_spark import GridSearch, Selection, SparkBackend, Store
from cerebro_spark.builtin import unchanged
from cerebro_spark.cli._options import BACKEND, CHOICES, RENAMED, TABLES, StoreUri, command_line, typed_options
from cerebro_spark.cli._search_file import load_search, search_settings
from cerebro_spark.cli._selection_files import write_selection
from cerebro_spark.cli._table_file import check_table, feature_names, labels_and_weight
from cerebro_spark.cli._tune_groups import tune_groups
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import IF_BEGUN, Journal
from cerebro_spark.steering.runner import connect
from cerebro_spark.tune import PROCEDURES
from optimizer.arguments import choice_error
from udfs.cli import (
    Json,
    Master,
    OptionGroup,
    OutFolder,
    TableFormat,
    choice,
    comma_separated,
    ended_by_interrupt,
    refused_before_spark,
    with_options,
)
from udfs.driver import check_place, launch, read_table, track_into
from udfs.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from cerebro_spark.hopper import RunSpec

__all__ = ["tune_command"]

# Settings with which the rows of a run were prepared.
_PREPARATION = ["feature_columns", "test_fraction", "num_shards"]

_SEARCHES = [getattr(cerebro_spark, name) for name in PROCEDURES.values()]

# Settings of the search that are both options and names in the search file; an option takes precedence.
_SETTINGS = [
    *("feature_columns", "label_columns", "weight_column", "num_epochs", "num_configurations", "population"),
    *("max_epochs", "eta", "max_configurations", "max_total_epochs", "max_seconds", "price", "max_cost"),
    *("sampler", "concurrency", "keep", "metric", "test_fraction", "num_shards"),
]
# Options that --resume refuses. The store has the procedure, the seed and the prepared rows of the run.
_STORED = ["table", "table_format", "run_id", "if_begun", "procedure", "seed", "errors", *_PREPARATION]
# The store has the other settings of a grid search as well; a resumed one may train longer.
_STORED_OF_GRID = ["schedule", "replicas", *(name for name in _SETTINGS if name != "num_epochs")]

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
    options=OptionGroup(_SEARCHES, _SETTINGS, overrides=RENAMED | _OVERRIDES, defaults=dict.fromkeys(_SETTINGS)),
)
def tune_command(
    search: Annotated[Path, typer.Argument(help="Python file with trainer_fn and search_space.")],
    out: OutFolder,
    workers: dict[str, Any],
    common: dict[str, Any],
    options: dict[str, Any],
    context: typer.Context,
    table: Annotated[str | None, typer.Option(help=f"Data of a new run: {TABLES}.")] = None,
    table_format: TableFormat = None,
    store: StoreUri = None,
    procedure: Annotated[
        str | None,
        typer.Option(
            help=f"Procedure of the search: {', '.join(PROCEDURES)}. Default: that of the file, or grid.",
            parser=choice(*PROCEDURES),
            metavar="PROCEDURE",
        ),
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the new run in the store.")] = None,
    if_begun: Annotated[
        str,
        typer.Option(
            help="What to do if the store has the run of --run-id: end with an error (error), continue it (resume), or "
            "continue it after its driver, if it is still alive, has stopped (take_over). With the last two a "
            "scheduler can repeat the command until it succeeds.",
            parser=choice(*IF_BEGUN),
            metavar="WHAT",
        ),
    ] = "error",
    group_by: Annotated[
        Any,
        typer.Option(
            help="Columns of keys, with commas: each group of rows gets a model of its own, the best of the grid.",
            parser=comma_separated,
            metavar="NAMES",
        ),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Name of a run to continue. Options that only a new run uses are refused.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="Address of a server of cerebro serve, whose users follow and steer the search."),
    ] = None,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Train configurations of a search over one table, in parallel, and keep the best."""
    if group_by is not None:
        tune_groups(search, group_by, options, {**common, **workers}, context.params)
        return
    with refused_before_spark():
        _check_run(run_id, if_begun, server)
        module = load_search(search)
        run_store = Store.from_uri(store or str((out / "store").resolve()))
        spec = None if resume is None else Journal(run_store, resume).spec()
        search_class = getattr(cerebro_spark, spec.procedure if spec else _search_class_name(procedure, module))
        is_grid = search_class is cerebro_spark.GridSearch
        make_backend: Callable[[Any], SparkBackend] = partial(SparkBackend, **workers)
        if spec is not None:
            _check_resumed(context, module, spec)
            _check_steerable(spec, server)
            common["seed"] = spec.seed
        make_search = partial(
            search_class, store=run_store, trainer_fn=module.trainer_fn, search_space=module.search_space, **common
        )
        settings: dict[str, Any] = {}
        if spec is None or not is_grid:
            settings = search_settings(module, options, search_class)
            # Check the settings before Spark starts; the session and the columns are known later.
            absent: Any = None
            make_search(backend=make_backend(absent), **{"feature_columns": (), **settings})
        if spec is None:
            # The columns of a table that the file converts are known when Spark has read it.
            _check_table(table, {} if hasattr(module, "convert_table") else settings, master, table_format)
        check_place(str(out))
    run = resume or run_id or f"run-{uuid.uuid4().hex[:12]}"

    def remedy() -> str:
        if Journal(run_store, run).begun:
            typed = typed_options(context, [*_stored(is_grid=is_grid), "resume", "out", "store"])
            values = [("--resume", run), ("--out", str(out)), ("--store", store), *typed]
            return f"continue run {run} with: {command_line(['tune', str(search)], values)}"
        return "no configuration was trained; the same command starts the search and reuses prepared rows"

    with ended_by_interrupt(remedy):
        with Console(stderr=as_json).status("starting Spark"):
            spark = launch(master, {"spark.log.level": "ERROR"}, name="cerebro")
        backend = make_backend(spark)
        if resume is None:
            assert table is not None
            df = getattr(module, "convert_table", unchanged)(read_table(spark, table, table_format))
            other_columns = labels_and_weight(settings)
            settings.setdefault("feature_columns", [name for name in df.columns if name not in other_columns])
        out.mkdir(parents=True, exist_ok=True)
        track_into(out, common["experiment"])
        if resume is not None and is_grid:
            selection = Selection.resume(
                run_store,
                resume,
                backend=backend,
                trainer_fn=module.trainer_fn,
                num_epochs=options.get("num_epochs"),
                experiment=common["experiment"],
            )
        elif resume is not None:
            resumed = make_search(backend=backend, **{"feature_columns": (), **settings})
            selection = resumed.resume(resume, server=server)
        else:
            new = make_search(backend=backend, **settings)
            selection = new.fit(df, run_id=run, if_begun=if_begun, server=server)
        write_selection(selection, out, as_json=as_json)


def _check_run(run_id: str | None, if_begun: str, server: str | None) -> None:
    """Check the name of a run, and that the server answers if there is one."""
    if run_id is not None:
        check_name(run_id, "a run")
    elif if_begun != "error":
        raise InvalidArgumentError(f"--run-id must name the run that --if-begun {if_begun} looks for, got none.")
    if server is not None:
        connect(server)


def _stored(*, is_grid: bool) -> list[str]:
    """Return the names of the options that a resumed run does not use."""
    return [*_STORED, *(_STORED_OF_GRID if is_grid else ())]


def _check_resumed(context: typer.Context, module: ModuleType, spec: RunSpec) -> None:
    """Refuse options on the command line that a resumed run does not use, and epochs that are in doubt."""
    is_grid = spec.procedure == PROCEDURES["grid"]
    for option in context.command.params:
        source = None if option.name is None else context.get_parameter_source(option.name)
        if option.name in _stored(is_grid=is_grid) and source is not None and source.name == "COMMANDLINE":
            raise InvalidArgumentError(
                f"{option.opts[0]} must be left out with --resume, which continues with what the store has, got "
                f"{context.params[option.name]}."
            )
    if is_grid:
        _check_epochs(module, context.params.get("num_epochs"), spec.epochs)


def _check_steerable(spec: RunSpec, server: str | None) -> None:
    """Refuse the server of a resumed grid search, whose settings are those of the store."""
    if server is not None and spec.procedure == PROCEDURES["grid"]:
        raise InvalidArgumentError(
            f"--server must be left out with --resume of a grid search, got {server}. Repeat the first command with "
            f"--run-id {spec.run} --if-begun resume --server {server} instead."
        )


def _check_epochs(module: ModuleType, typed: int | None, begun: int) -> None:
    """Refuse epochs that a resumed grid search cannot train, or that are in doubt."""
    written = getattr(module, "num_epochs", None)
    if typed is None and written is not None and written != begun:
        raise InvalidArgumentError(
            f"--num-epochs must say how long to train, because the run began with {begun} epochs and {module.__file__} "
            f"has num_epochs={written}: give --num-epochs N, at least {begun}."
        )
    if typed is not None and typed < begun:
        raise InvalidArgumentError(
            f"--num-epochs must be at least {begun}, the epochs that the run began with, got {typed}."
        )


def _search_class_name(procedure: str | None, module: ModuleType) -> str:
    """Return the class in ``cerebro_spark`` of the procedure, from the option or else from the search file."""
    name = procedure or getattr(module, "procedure", "grid")
    if name not in PROCEDURES:
        raise InvalidArgumentError(choice_error(f"procedure of {module.__file__}", name, PROCEDURES))
    return PROCEDURES[name]


def _check_table(table: str | None, settings: Mapping[str, Any], master: str | None, table_format: str | None) -> None:
    """Check that the table of a new run can be read and has the columns of the settings."""
    if table is None:
        raise InvalidArgumentError("--table must name the data of a new run, got none. --resume continues a run.")
    features, others = settings.get("feature_columns", ()), labels_and_weight(settings) if settings else []
    check_table(table, [*feature_names(features), *others], "--table", master, table_format)
