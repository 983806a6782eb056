"""``cerebro stop``, ``pause``, ``resume``, ``clone`` and ``add``: commands to a running search."""

from __future__ import annotations

from typing import Annotated

import typer

from cerebro_spark.cli._server_options import Epochs, Run, ServerUrl, Trial, Values, Wait, named_values, send_commands
from cerebro_spark.steering import Client
from optimizer.steering import Add, Clone, Pause, Resume, Stop
from udfs.cli import refused_before_spark

__all__ = ["add_command", "clone_command", "pause_command", "resume_command", "stop_command"]

_Trials = Annotated[list[str], typer.Argument(metavar="TRIAL...", help="Ids of configurations, such as c003.")]


def stop_command(run: Run, trials: _Trials, server: ServerUrl = None, wait: Wait = 30.0) -> None:
    """End configurations; their finished epochs count."""
    send_commands(Client(server), run, [Stop(each) for each in trials], wait)


def pause_command(run: Run, trials: _Trials, server: ServerUrl = None, wait: Wait = 30.0) -> None:
    """Pause configurations after their unit in flight."""
    send_commands(Client(server), run, [Pause(each) for each in trials], wait)


def resume_command(run: Run, trials: _Trials, server: ServerUrl = None, wait: Wait = 30.0) -> None:
    """Resume configurations that a user has paused."""
    send_commands(Client(server), run, [Resume(each) for each in trials], wait)


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
    run: Run, values: Values = None, epochs: Epochs = None, server: ServerUrl = None, wait: Wait = 30.0
) -> None:
    """Train another configuration."""
    with refused_before_spark():
        command = Add(named_values(values or []), epochs)
    send_commands(Client(server), run, [command], wait)
