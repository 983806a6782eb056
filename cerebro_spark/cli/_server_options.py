"""Options and output of the commands that steer searches."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimizer.errors import InvalidArgumentError
from optimizer.steering import command_document, command_name, command_trial, read_command
from udfs.cli import refused_before_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cerebro_spark.steering import Client
    from optimizer.steering import Command

__all__ = [
    "AllowScripts",
    "Database",
    "Epochs",
    "Run",
    "ServerUrl",
    "Trial",
    "Values",
    "Wait",
    "Where",
    "conditions",
    "named_values",
    "print_outcomes",
    "send_commands",
    "send_to",
]

Database = Annotated[
    Path | None, typer.Option(help="SQLite file of the server; ~/.local/share/cerebro/server.sqlite by default.")
]
AllowScripts = Annotated[
    bool, typer.Option("--allow-scripts", help="Let editors run Python code that they upload, as your user.")
]
ServerUrl = Annotated[
    str | None, typer.Option("--server", envvar="CEREBRO_SERVER", help="URL; http://127.0.0.1:8765 by default.")
]
Run = Annotated[str, typer.Argument(help="Name of the run.")]
Trial = Annotated[str, typer.Argument(help="Id of the configuration, such as c003.")]
Values = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Hyperparameters; values are JSON.")
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Epochs to train; as many as the search gives its best by default.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="In place of ids, all configurations that meet the conditions: status=running, owner=ada, text=relu, or "
        "the last value of a metric, such as 'loss>0.7'; may be repeated.",
    ),
]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait until the search has carried it out.")]


def named_values(texts: Sequence[str]) -> dict[str, Any]:
    """Parse hyperparameters; a value that is no JSON is a string.

    Raises
    ------
    InvalidArgumentError
        A text is no ``name=value``, or a name is there twice.

    Examples
    --------
    >>> named_values(["lr=0.01", "hidden=[64, 32]", "activation=relu"])
    {'lr': 0.01, 'hidden': [64, 32], 'activation': 'relu'}
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign or name in values:
            raise InvalidArgumentError(f"hyperparameters must be NAME=VALUE with different names, got {text!r}.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def conditions(texts: Sequence[str]) -> dict[str, Any]:
    """Parse conditions to a filter of the REST API.

    Raises
    ------
    InvalidArgumentError
        A text is no condition, or there are conditions on two metrics.

    Examples
    --------
    >>> conditions(["status=running", "status=paused", "loss>0.7"])
    {'status': ['running', 'paused'], 'metric': {'name': 'loss', 'above': 0.7}}
    """
    where: dict[str, Any] = {}
    for text in texts:
        match = re.fullmatch(r"([^=<>]+)([=<>])(.*)", text)
        name, sign, value = match.groups() if match else ("", "", "")
        if sign == "=" and name == "status":
            where.setdefault("status", []).append(value)
        elif sign == "=" and name in {"owner", "text"}:
            where[name] = value
        elif sign in {"<", ">"} and where.setdefault("metric", {"name": name})["name"] == name and _is_number(value):
            where["metric"]["below" if sign == "<" else "above"] = float(value)
        else:
            raise InvalidArgumentError(
                f"where must be status=, owner= or text= and a value, or one metric, < or > and a number, got {text!r}."
            )
    return where


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def send_to(
    client: Client, run: str, make: Callable[[str], Command], trials: Sequence[str], where: Sequence[str], wait_s: float
) -> None:
    """Send a command to some configurations, or to all that meet conditions; print the effect and the outcomes."""
    if bool(trials) == bool(where):
        raise typer.BadParameter("name configurations, or conditions with --where")
    if trials:
        send_commands(client, run, [make(each) for each in trials], wait_s)
        return
    fields = command_document(make("c000"))
    name = fields.pop("command")
    del fields["trial"]
    with refused_before_spark():
        chosen = conditions(where)
    predicted = client.effect_all(run, name, chosen, **fields)
    for sentence in predicted["effect"]["sentences"]:
        typer.echo(sentence)
    for each in predicted["left_out"]:
        typer.echo(f"{each['trial']} is left out: {each['message']}")
    # Configurations that meet the conditions only now are not part of the effect.
    sent = client.send_all(run, name, {"trials": predicted["trials"]}, **fields)["commands"]
    print_outcomes(client, run, sent, wait_s)


def send_commands(client: Client, run: str, commands: Sequence[Command], wait_s: float) -> None:
    """Print the effect of commands, send them, and print their outcomes.

    Ends the process with code 1 if the search refuses one of them.
    """
    sent = []
    for command in commands:
        for sentence in client.effect(run, command)["sentences"]:
            typer.echo(sentence)
        sent.append(client.send(run, command))
    print_outcomes(client, run, sent, wait_s)


def print_outcomes(client: Client, run: str, sent: Sequence[dict[str, Any]], wait_s: float) -> None:
    """Wait for commands that were sent, and print their outcomes.

    Ends the process with code 1 if the search refuses one of them.
    """
    is_refused = False
    for record in sent:
        command = read_command(record["command"])
        title = f"{command_name(command)} {command_trial(command) or ''}".strip()
        try:
            settled = client.wait(run, record["id"], wait_s)
        except TimeoutError:
            typer.echo(f"{title}: pending as {record['id']}; the search carries it out once it is connected")
            continue
        message, trial = settled["result"].get("message", ""), settled["result"].get("trial", "")
        started = f" as {trial}" if trial and trial != command_trial(command) else ""
        typer.echo(f"{title}: {settled['state']}{started}{f': {message}' if message else ''}")
        is_refused = is_refused or settled["state"] != "applied"
    if is_refused:
        raise typer.Exit(1)
