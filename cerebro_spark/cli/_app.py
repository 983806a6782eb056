"""``cerebro``: model selection from the command line."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path  # noqa: TC003 - typer reads it
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cerebro_spark.errors import InvalidArgumentError
from optimizer.errors import CerebroError, nearest
from optimizer.hopper import POLICIES
from udfs.driver import launch, track_into

if TYPE_CHECKING:
    from types import ModuleType

    from cerebro_spark.tune import Selection

__all__ = ["app", "main"]

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

_CONSOLE = Console()

# What a file of a search may have beside trainer_fn and search_space.
_SETTINGS = ("feature_columns", "label_columns", "num_epochs", "metric", "test_fraction", "image_size")


@app.callback()
def _cerebro() -> None:
    """Train deep-learning models over Spark DataFrames."""


@app.command()
def tune(
    search: Annotated[Path, typer.Argument(help="A Python file with trainer_fn and search_space.")],
    out: Annotated[Path, typer.Option(help="Folder for the table, the pictures, the best model and MLflow's files.")],
    table: Annotated[str | None, typer.Option(help="The data: a .parquet; not needed with --resume.")] = None,
    store: Annotated[
        str | None, typer.Option(help="URI of the store that driver and workers reach; <out>/store by default.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Feature columns, with commas; every one but the labels by default.")
    ] = None,
    labels: Annotated[str | None, typer.Option(help="Label columns, with commas.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs; the file's num_epochs by default, or 10.")] = None,
    metric: Annotated[str | None, typer.Option(help="What decides; the file's metric, or loss.")] = None,
    workers: Annotated[int, typer.Option(help="Long-lived tasks that train.")] = 2,
    replicas: Annotated[int, typer.Option(help="Workers that keep each shard.")] = 1,
    schedule: Annotated[str, typer.Option(help=f"{', '.join(POLICIES)}.")] = POLICIES[0],
    errors: Annotated[str, typer.Option(help="Bad rows: drop or raise.")] = "raise",
    seed: Annotated[int, typer.Option(help="Of shuffles, splits, initial weights and visits.")] = 0,
    run_id: Annotated[str | None, typer.Option(help="Name of the run in the store.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this run.")] = None,
    experiment: Annotated[str, typer.Option(help="MLflow experiment.")] = "model-selection",
    master: Annotated[
        str | None, typer.Option(help="local[*], spark://..., yarn, k8s://..., sc://... for Connect.")
    ] = None,
) -> None:
    """Train every configuration of a search over one table, all in parallel, and keep the best."""
    from cerebro_spark import GridSearch, Selection, SparkBackend, Store  # noqa: PLC0415 - after --help has been answered

    module = _module(search)
    given = {"feature_columns": features, "label_columns": labels, "num_epochs": epochs, "metric": metric}
    settings = {} if resume is not None else _settings(module, given)
    if resume is None and table is None:
        raise InvalidArgumentError("--table names the data, unless a run is resumed")
    out.mkdir(parents=True, exist_ok=True)
    track_into(out, experiment)
    kept = Store.from_uri(store or str((out / "store").resolve()))
    spark = launch(master, {}, name="cerebro")
    backend = SparkBackend(spark, num_workers=workers)
    if resume is not None:
        found = Selection.resume(
            kept,
            resume,
            backend=backend,
            trainer_fn=module.trainer_fn,
            num_epochs=epochs,
            experiment=experiment,
        )
    else:
        assert table is not None  # noqa: S101 - seen above, before Spark
        df = spark.read.parquet(table)
        settings.setdefault("feature_columns", [name for name in df.columns if name not in settings["label_columns"]])
        found = GridSearch(
            backend=backend,
            store=kept,
            trainer_fn=module.trainer_fn,
            search_space=module.search_space,
            replicas=replicas,
            schedule=schedule,
            errors=errors,
            seed=seed,
            experiment=experiment,
            **settings,
        ).fit(df, run_id=run_id)
    _write(found, out)


def _settings(module: ModuleType, given: dict[str, Any]) -> dict[str, Any]:
    """What the file says, and over it what the command line says."""
    settings: dict[str, Any] = {"num_epochs": 10}
    settings |= {name: getattr(module, name) for name in _SETTINGS if hasattr(module, name)}
    for name, value in given.items():
        if value is not None:
            settings[name] = value.split(",") if name.endswith("_columns") else value
    if "label_columns" not in settings:
        raise InvalidArgumentError(f"{module.__file__} has no label_columns: name them there, or with --labels")
    return settings


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InvalidArgumentError(f"{path} is not a Python file: it has to define trainer_fn and search_space")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # The workers have no such file: its functions go with Spark's closures, by value.
    from pyspark import cloudpickle  # noqa: PLC0415 - beside its only use

    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    for name in ("trainer_fn", "search_space"):
        if not hasattr(module, name):
            raise InvalidArgumentError(f"{path} does not define {name}{nearest(name, dir(module))}")
    return module


def _write(found: Selection, out: Path) -> None:
    found.to_pandas().to_csv(out / "trials.csv", index=False)
    found.gantt().savefig(out / "gantt.png", dpi=120)
    found.plot().savefig(out / "learning_curves.png", dpi=120)
    (out / "run.txt").write_text(found.explain() + "\n")
    shown = Table("", "params", "status", found.spec.metric)
    for trial in found.trials:
        params = ", ".join(f"{name}={value}" for name, value in trial.params.items())
        shown.add_row(trial.trial_id, params, trial.status, f"{trial.metric:.4f}")
    _CONSOLE.print(shown)
    _CONSOLE.print(found.explain(), highlight=False, markup=False)
    found.best_model.write().overwrite().save(str((out / "best_model").resolve()))
    _CONSOLE.print(f"best: {found.best.trial_id}; files in {out}; run {found.run_id}", highlight=False, markup=False)


def main() -> None:
    """Run the command; what is wrong is said in one line."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        app()
    except CerebroError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(1)
