"""``cerebro ls`` and ``cerebro watch``: experiments and configurations of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.table import Table

from cerebro_spark.cli._server_options import Run, ServerUrl
from cerebro_spark.steering import Client
from udfs.cli import print_table

__all__ = ["ls_command", "watch_command"]


def ls_command(
    run: Annotated[str | None, typer.Argument(help="Name of a run, to list its configurations.")] = None,
    status: Annotated[str, typer.Option(help="List configurations of this status, such as running.")] = "",
    owner: Annotated[str | None, typer.Option(help="List configurations that this user added.")] = None,
    sort: Annotated[str, typer.Option(help="Field or metric to sort by; with - first for descending order.")] = "",
    server: ServerUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the experiments of a server, or the configurations of one."""
    client = Client(server)
    chosen: dict[str, Any] = {"status": status, "owner": owner, "sort": sort}
    listed = client.experiments() if run is None else client.configurations(run, **chosen)
    if as_json:
        typer.echo(json.dumps(listed, indent=1))
        return
    print_table(_experiments(listed) if run is None else _configurations(listed))


def watch_command(run: Run, server: ServerUrl = None) -> None:
    """Print what happens in an experiment until it ends."""
    client = Client(server)
    experiment = client.experiment(run)
    typer.echo(
        f"{run}: {experiment['state']}; configurations: {experiment['configurations']}; epochs: "
        f"{experiment['finished']} finished, {experiment['remaining']} remain"
    )
    if experiment["ended"] is not None:
        return
    for event in client.follow(run, since=experiment["cursor"]):
        for line in _lines(event["stream"], event["document"]):
            typer.echo(line)
        if event["stream"] == "experiment" and event["document"]["state"] == "ended":
            return


def _lines(stream: str, document: Any) -> Iterator[str]:
    if stream == "orders":
        for result in document["results"]:
            if result["result"] == "epoch":
                values = ", ".join(f"{name} {value}" for name, value in result["metrics"].items())
                yield f"{result['trial']} epoch {result['epoch']}: {values}"
            elif result["result"] == "ended":
                yield f"{result['trial']} {result['status']}"
        for decision in document["decisions"]:
            reason = f": {decision['reason']}" if decision["reason"] else ""
            yield f"{decision['trial']} {decision['decision']}{reason}"
    elif stream == "commands":
        name, trial = document["command"]["command"], document["command"].get("trial", "")
        yield f"{document['user']}: {name} {trial} {document['state']}".replace("  ", " ")
    elif stream == "experiment":
        yield f"experiment {document['state']}" + (f": {document['error']}" if document.get("error") else "")


def _experiments(listed: list[dict[str, Any]]) -> Table:
    table = Table("run", "state", "procedure", "configurations", "epochs", "remaining", "metric", "best", "pending")
    for each in listed:
        metric = f"{each['metric']} ({each['mode']})"
        counts = (each["configurations"], each["finished"], each["remaining"])
        cells = (each["run"], each["state"], each["procedure"], *counts, metric, each["best"], each["pending"])
        table.add_row(*map(_cell, cells))
    return table


def _configurations(listed: list[dict[str, Any]]) -> Table:
    params = list(dict.fromkeys(name for each in listed for name in each["params"]))
    metrics = list(dict.fromkeys(name for each in listed for name in each["metrics"]))
    table = Table("trial", "status", "epochs", *params, *metrics, "owner", "parent", "reason")
    for each in listed:
        first = (each["trial"], each["status"], f"{each['finished']} of {each['granted']}")
        values = [each["params"].get(name) for name in params] + [each["metrics"].get(name) for name in metrics]
        table.add_row(*map(_cell, (*first, *values, each["owner"], each["parent"], each["reason"])))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
