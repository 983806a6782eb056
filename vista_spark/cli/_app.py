"""``vista``: its commands, a file each."""

from __future__ import annotations

import typer

from udfs.cli import Version, run_command
from vista_spark.cli._cascade import cascade_command
from vista_spark.cli._catalog import catalog_command
from vista_spark.cli._compile import compile_command
from vista_spark.cli._explain import explain_command
from vista_spark.cli._jar import jar_command
from vista_spark.cli._models import models_command
from vista_spark.cli._package import package_command
from vista_spark.cli._plan import plan_command
from vista_spark.cli._profile import profile_command
from vista_spark.cli._score import score_command
from vista_spark.cli._serve import serve_command
from vista_spark.cli._skew import skew_command
from vista_spark.cli._specialize import specialize_command
from vista_spark.cli._transfer import transfer_command
from vista_spark.cli._weights import weights_app

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command("transfer")(transfer_command)
app.command("plan")(plan_command)
app.command("profile")(profile_command)
app.command("explain")(explain_command)
app.command("compile")(compile_command)
app.command("score")(score_command)
app.command("cascade")(cascade_command)
app.command("catalog")(catalog_command)
app.command("skew")(skew_command)
app.command("specialize")(specialize_command)
app.command("serve")(serve_command)
app.command("models")(models_command)
app.command("package")(package_command)
app.command("jar")(jar_command)
app.add_typer(weights_app, name="weights")


@app.callback()
def _vista(version: Version = False) -> None:
    """Run deep-learning models over Spark DataFrames."""


def main() -> None:
    """Run the command."""
    run_command(app)
