"""Options and output of the commands that steer searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimizer.errors import InvalidArgumentError
from optimizer.steering import command_name, command_trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.steering import Client
    from optimizer.steering import Command

__all__ = ["Database", "Epochs", "Run", "ServerUrl", "Trial", "Values", "Wait", "named_values", "send_commands"]

Database = Annotated[
    Path | None, typer.Option(help="SQLite file of the server; ~/.local/share/cerebro/server.sqlite by default.")
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


def send_commands(client: Client, run: str, commands: Sequence[Command], wait_s: float) -> None:
    """Print the effect of commands, send them, and print their outcomes.

    Ends the process with code 1 if the search refuses one of them.
    """
    sent = []
    for command in commands:
        for sentence in client.effect(run, command)["sentences"]:
            typer.echo(sentence)
        sent.append((command, client.send(run, command)))
    is_refused = False
    for command, record in sent:
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
