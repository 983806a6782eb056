"""``cerebro stop``, ``pause``, ``extend``, ``clone``, ``add`` and others: commands to a running search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cerebro_spark.cli._server_options import (
    Epochs,
    Run,
    ServerUrl,
    Trial,
    Values,
    Wait,
    Where,
    named_values,
    print_outcomes,
    send_commands,
    send_to,
)
from cerebro_spark.steering import Client
from optimizer.errors import InvalidArgumentError
from optimizer.steering import Add, Clone, End, Extend, Pause, Prioritise, Resume, Stop
from udfs.cli import refused_before_spark

__all__ = [
    "add_command",
    "clone_command",
    "end_command",
    "extend_command",
    "pause_command",
    "prioritise_command",
    "resume_command",
    "stop_command",
    "withdraw_command",
]

_Trials = Annotated[list[str] | None, typer.Argument(metavar="[TRIAL]...", help="Ids of configurations, such as c003.")]


def stop_command(
    run: Run, trials: _Trials = None, where: Where = None, server: ServerUrl = None, wait: Wait = 30.0
) -> None:
    """End configurations; their finished epochs count."""
    send_to(Client(server), run, Stop, trials or (), where or (), wait)


def pause_command(
    run: Run, trials: _Trials = None, where: Where = None, server: ServerUrl = None, wait: Wait = 30.0
) -> None:
    """Pause configurations after their unit in flight."""
    send_to(Client(server), run, Pause, trials or (), where or (), wait)


def resume_command(
    run: Run, trials: _Trials = None, where: Where = None, server: ServerUrl = None, wait: Wait = 30.0
) -> None:
    """Resume configurations that a user has paused."""
    send_to(Client(server), run, Resume, trials or (), where or (), wait)


def prioritise_command(
    run: Run, trials: _Trials = None, where: Where = None, server: ServerUrl = None, wait: Wait = 30.0
) -> None:
    """Assign units of configurations before those of others."""
    send_to(Client(server), run, Prioritise, trials or (), where or (), wait)


def extend_command(
    run: Run,
    trials: _Trials = None,
    where: Where = None,
    epochs: Annotated[int, typer.Option(min=1, help="Number of additional epochs.")] = 1,
    server: ServerUrl = None,
    wait: Wait = 30.0,
) -> None:
    """Train configurations for more epochs, also those that have ended."""
    send_to(Client(server), run, lambda trial: Extend(trial, epochs), trials or (), where or (), wait)


def end_command(run: Run, server: ServerUrl = None, wait: Wait = 30.0) -> None:
    """End a search; all configurations keep their finished epochs."""
    send_commands(Client(server), run, [End()], wait)


def withdraw_command(
    commands: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Ids of pending commands.")],
    server: ServerUrl = None,
) -> None:
    """Withdraw pending commands."""
    client = Client(server)
    for each in commands:
        typer.echo(f"{each}: {client.withdraw(each)['state']}")


def clone_command(
    run: Run,
    trial: Trial,
    values: Values = None,
    epoch: Annotated[int | None, typer.Option(min=1, help="Finished epoch to copy; the last by default.")] = None,
    epochs: Epochs = None,
    server: ServerUrl = None,
    wait: Wait = 30.0,
) -> None:
    """Train a copy of a configuration on with other hyperparameters."""
    with refused_before_spark():
        command = Clone(trial, named_values(values or []), epoch, epochs)
    send_commands(Client(server), run, [command], wait)


def add_command(
    run: Run,
    values: Values = None,
    epochs: Epochs = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Number of configurations to draw from a space; NAME=VALUE are fixed.")
    ] = None,
    space: Annotated[
        Path | None,
        typer.Option(help="JSON file of the space; by default what the best configurations have in common."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    server: ServerUrl = None,
    wait: Wait = 30.0,
) -> None:
    """Train another configuration, or several from a space."""
    with refused_before_spark():
        params = named_values(values or [])
        if space is not None and count is None:
            raise InvalidArgumentError("--count must be the number of configurations to draw from --space, got none.")
        domains = None if space is None else _read_space(space)
    client = Client(server)
    if count is None:
        send_commands(client, run, [Add(params, epochs)], wait)
        return
    if domains is None:
        domains = client.narrowed(run)["search_space"]
    fixed = {name: {"kind": "fixed", "value": value} for name, value in params.items()}
    sent = client.add_from(run, {**domains, **fixed}, count=count, seed=seed, epochs=epochs)["commands"]
    print_outcomes(client, run, sent, wait)


def _read_space(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"--space must be a JSON file of a search space, got {path}: {error}") from error
