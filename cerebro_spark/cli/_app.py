"""``cerebro``: its commands, a file each, which are imported once they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from udfs.cli import LazyCommands, Version, lazy_command, run_command

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["app", "main"]

app = typer.Typer(cls=LazyCommands, no_args_is_help=True, pretty_exceptions_enable=False)


users = typer.Typer(cls=LazyCommands, no_args_is_help=True, help="List and remove users of the server.")
app.add_typer(users, name="users")


@lazy_command(app, "tune")
def _tune() -> Callable[..., Any]:
    """Train configurations of a search over one table, in parallel, and keep the best."""
    from cerebro_spark.cli._tune import tune_command

    return tune_command


@lazy_command(app, "ablate")
def _ablate() -> Callable[..., Any]:
    """Train a network without each of its parts, several times, and compare the results."""
    from cerebro_spark.cli._ablate import ablate_command

    return ablate_command


@lazy_command(app, "adapt")
def _adapt() -> Callable[..., Any]:
    """Adapt a pre-trained network in many ways, again after each batch of labels, and rank what to label next."""
    from cerebro_spark.cli._adapt import adapt_command

    return adapt_command


@lazy_command(app, "fsck")
def _fsck() -> Callable[..., Any]:
    """Read all shards and runs of a store, compare them with their digests, and name what is damaged."""
    from cerebro_spark.cli._fsck import fsck_command

    return fsck_command


@lazy_command(app, "tables")
def _tables() -> Callable[..., Any]:
    """Write a run's record as files: configurations, metrics, units, decisions, states, artifacts and others."""
    from cerebro_spark.cli._tables import tables_command

    return tables_command


@lazy_command(app, "serve")
def _serve() -> Callable[..., Any]:
    """Show running searches in a browser, and pass commands to them."""
    from cerebro_spark.cli._serve import serve_command

    return serve_command


@lazy_command(app, "runner")
def _runner() -> Callable[..., Any]:
    """Train searches that users of a server launch, and answer their other requests."""
    from cerebro_spark.cli._runner import runner_command

    return runner_command


@lazy_command(app, "ls")
def _ls() -> Callable[..., Any]:
    """List the experiments of a server, or the configurations of one."""
    from cerebro_spark.cli._ls import ls_command

    return ls_command


@lazy_command(app, "watch")
def _watch() -> Callable[..., Any]:
    """Print what happens in an experiment until it ends."""
    from cerebro_spark.cli._ls import watch_command

    return watch_command


@lazy_command(app, "stop")
def _stop() -> Callable[..., Any]:
    """End configurations; their finished epochs count."""
    from cerebro_spark.cli._steer import stop_command

    return stop_command


@lazy_command(app, "pause")
def _pause() -> Callable[..., Any]:
    """Pause configurations after their unit in flight."""
    from cerebro_spark.cli._steer import pause_command

    return pause_command


@lazy_command(app, "resume")
def _resume() -> Callable[..., Any]:
    """Resume configurations that a user has paused."""
    from cerebro_spark.cli._steer import resume_command

    return resume_command


@lazy_command(app, "clone")
def _clone() -> Callable[..., Any]:
    """Train a copy of a configuration on with other hyperparameters."""
    from cerebro_spark.cli._steer import clone_command

    return clone_command


@lazy_command(app, "add")
def _add() -> Callable[..., Any]:
    """Train another configuration, or several from a space."""
    from cerebro_spark.cli._steer import add_command

    return add_command


@lazy_command(app, "prioritise")
def _prioritise() -> Callable[..., Any]:
    """Assign units of configurations before those of others."""
    from cerebro_spark.cli._steer import prioritise_command

    return prioritise_command


@lazy_command(app, "extend")
def _extend() -> Callable[..., Any]:
    """Train configurations for more epochs, also those that have ended."""
    from cerebro_spark.cli._steer import extend_command

    return extend_command


@lazy_command(app, "end")
def _end() -> Callable[..., Any]:
    """End a search; all configurations keep their finished epochs."""
    from cerebro_spark.cli._steer import end_command

    return end_command


@lazy_command(app, "withdraw")
def _withdraw() -> Callable[..., Any]:
    """Withdraw pending commands."""
    from cerebro_spark.cli._steer import withdraw_command

    return withdraw_command


@lazy_command(users, "ls")
def _users_ls() -> Callable[..., Any]:
    """List the users and programs of a server."""
    from cerebro_spark.cli._users import list_users_command

    return list_users_command


@lazy_command(users, "rm")
def _users_rm() -> Callable[..., Any]:
    """Remove users and programs, and end their sessions."""
    from cerebro_spark.cli._users import remove_user_command

    return remove_user_command


@lazy_command(app, "index")
def _index() -> Callable[..., Any]:
    """Read the journals of a store's runs into the database of the server."""
    from cerebro_spark.cli._index import index_command

    return index_command


@app.callback()
def _cerebro(version: Version = False) -> None:
    """Train deep-learning models over Spark DataFrames."""


def main() -> None:
    """Run the command."""
    run_command(app)
