"""``cerebro``: its commands, a file each."""

from __future__ import annotations

import typer

from cerebro_spark.cli._adapt import adapt_command
from cerebro_spark.cli._fsck import fsck_command
from cerebro_spark.cli._tables import tables_command
from cerebro_spark.cli._tune import tune_command
from udfs.driver.command import Version, run_command

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command("tune")(tune_command)
app.command("adapt")(adapt_command)
app.command("fsck")(fsck_command)
app.command("tables")(tables_command)


@app.callback()
def _cerebro(version: Version = False) -> None:
    """Train deep-learning models over Spark DataFrames."""


def main() -> None:
    """Run the command."""
    run_command(app)
