"""``vista weights``: the published weights of the roster's networks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from udfs.cli import Json, out_folder, print_json, print_table, refused_before_spark
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError, WeightsError

__all__ = ["weights_app"]

weights_app = typer.Typer(no_args_is_help=True, help="Fetch the networks' ImageNet weights from torchvision and Keras.")


@weights_app.command("fetch")
def fetch_command(
    models: Annotated[list[str], typer.Argument(help="Names of `vista models`.", metavar="NAME...")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the files; by default the user's cache, where --weights imagenet finds them.",
            parser=out_folder,
            metavar="FOLDER",
        ),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            help="Address of a folder that has the files under their own names, instead of the publishers'.",
            envvar="VISTA_WEIGHTS_MIRROR",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch weights, and check their digests; a file that is there already is not fetched again."""
    with refused_before_spark():
        for model in models:
            roster.published_weights(model)
        if mirror is not None and not mirror.startswith(("http://", "https://")):
            raise InvalidArgumentError(
                f"--mirror must be the address of a folder, http://... or https://..., got {mirror!r}."
            )
    fetched = {}
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        for model in models:
            shown = partial(_show, bar, bar.add_task(model, total=None))
            fetched[model] = roster.fetch_weights(model, out, mirror=mirror, on_progress=shown)
    if as_json:
        print_json({"weights": {model: str(path) for model, path in fetched.items()}})
        return
    for path in fetched.values():
        typer.echo(str(path))


def _show(bar: Bar, task: TaskID, done: int, total: int | None) -> None:
    bar.update(task, completed=done, total=total)


@weights_app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the addresses and digests, and what is on this machine."""
    rows = []
    for model in roster.names():
        try:
            published = roster.published_weights(model)
        except ValueError as error:
            rows.append({"model": model, "url": None, "digest": None, "file": None, "instead": str(error)})
            continue
        try:
            file = str(roster.fetched_weights(model))
        except WeightsError:
            file = None
        digest = f"{published.algorithm}:{published.digest}" if published.digest else None
        rows.append({"model": model, "url": published.url, "digest": digest, "file": file, "instead": None})
    if as_json:
        print_json({"weights": rows})
        return
    table = Table("model", "address", "digest", "on this machine")
    for row in rows:
        if row["url"]:
            table.add_row(row["model"], row["url"], row["digest"] or "", row["file"] or "")
    print_table(table)
    for row in rows:
        if not row["url"]:
            typer.echo(f"{row['model']}: {row['instead']}")
