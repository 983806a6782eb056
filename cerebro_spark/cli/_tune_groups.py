"""``cerebro tune --group-by``: a model per group of rows, its table and picture."""

from __future__ import annotations

import uuid
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from cerebro_spark import GroupedSearch, SparkBackend, Store
from cerebro_spark.cli._search_file import load_search, search_settings
from cerebro_spark.cli._table_file import check_table, feature_names, labels_and_weight
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune import GridSearch
from udfs.cli import ended_by_interrupt, print_json, refused_before_spark
from udfs.driver import check_place, launch, read_table, track_into

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from cerebro_spark.grouping import GroupedModel

__all__ = ["tune_groups"]

_SETTINGS = {each.name for each in fields(GroupedSearch)}
_COMMON = ("errors", "seed", "experiment")
_WORKERS = ("num_workers", "device", "encrypt")


def tune_groups(
    path: Path,
    group_by: Sequence[str],
    options: dict[str, Any],
    common: Mapping[str, Any],
    command: Mapping[str, Any],
) -> None:
    """Train a model for each group of a table's rows, and write the results.

    Parameters
    ----------
    path : Path
        File of the search.
    group_by : sequence of str
        Columns of the keys.
    options, common : mapping of str to object
        Settings of the search and of the workers.
    command : mapping of str to object
        All other options of ``cerebro tune``.
    """
    out, table, form, master = (command[name] for name in ("out", "table", "table_format", "master"))
    with refused_before_spark():
        _check_options(command)
        module = load_search(path)
        settings = _settings(module, options, common, group_by)
        make_search = partial(
            GroupedSearch,
            store=Store.from_uri(command["store"] or str((out / "store").resolve())),
            trainer_fn=module.trainer_fn,
            search_space=module.search_space,
            **{name: value for name, value in settings.items() if name != "feature_columns"},
        )
        make_backend: Callable[[Any], SparkBackend] = partial(
            SparkBackend, **{name: common[name] for name in _WORKERS if name in common}
        )
        absent: Any = None
        make_search(backend=make_backend(absent), feature_columns=())
        other_columns = [*labels_and_weight(settings), *group_by]
        if not hasattr(module, "convert_table"):
            columns = [*feature_names(settings.get("feature_columns", ())), *other_columns]
            check_table(table, columns, "--table", master, form)
        check_place(str(out))
    run = command["run_id"] or f"groups-{uuid.uuid4().hex[:12]}"
    with ended_by_interrupt(lambda: f"the same command with --run-id {run} --if-begun resume trains the other groups"):
        with Console(stderr=command["as_json"]).status("starting Spark"):
            spark = launch(master, {"spark.log.level": "ERROR"}, name="cerebro")
        df = getattr(module, "convert_table", lambda df: df)(read_table(spark, table, form))
        features = settings.get("feature_columns", [name for name in df.columns if name not in other_columns])
        out.mkdir(parents=True, exist_ok=True)
        track_into(out, settings["experiment"])
        search = make_search(backend=make_backend(spark), feature_columns=features)
        _write(search.fit(df, run_id=run, if_begun=command["if_begun"]), out, as_json=command["as_json"])


def _check_options(command: Mapping[str, Any]) -> None:
    """Refuse options that have no meaning for groups."""
    for name, allowed, remedy in (
        ("resume", None, "Repeat the command with --run-id NAME --if-begun resume"),
        ("server", None, "Groups are not steered"),
        ("procedure", "grid", "Each group trains a grid"),
    ):
        if command[name] not in {None, allowed}:
            raise InvalidArgumentError(f"--{name} must be left out with --group-by, got {command[name]}. {remedy}.")
    if command["table"] is None:
        raise InvalidArgumentError("--table must name the data of the groups, got none.")
    if command["if_begun"] == "take_over":
        raise InvalidArgumentError("--if-begun must be error or resume with --group-by, got take_over.")


def _settings(
    module: ModuleType, options: dict[str, Any], common: Mapping[str, Any], group_by: Sequence[str]
) -> dict[str, Any]:
    """Collect the settings of a search per group from its file and from options."""
    settings = search_settings(module, options, GridSearch)
    for name, value in settings.items():
        if name not in _SETTINGS:
            raise InvalidArgumentError(f"{name} must be left out with --group-by, got {value!r}.")
    known = {name: common[name] for name in _COMMON if name in common}
    return {"experiment": None, **settings, **known, "group_by": tuple(group_by)}


def _write(model: GroupedModel, out: Path, *, as_json: bool) -> None:
    """Write ``groups.parquet``, ``groups.png``, ``groups.txt`` and ``best_model``, and print the summary."""
    summary = model.summary
    model.groups.write.mode("overwrite").parquet(str((out / "groups.parquet").resolve()))
    model.plot().savefig(out / "groups.png", dpi=120)
    (out / "groups.txt").write_text(summary.explain() + "\n")
    model.write().overwrite().save(str((out / "best_model").resolve()))
    typer.echo(summary.explain(), err=as_json)
    if as_json:
        counts = {name: getattr(summary, name) for name in ("better", "equal", "worse")}
        print_json({"run_id": model.run_id, "groups": dict(summary.statuses), **counts, "out": str(out)})
        return
    typer.echo(f"files in {out}; run {model.run_id}")
