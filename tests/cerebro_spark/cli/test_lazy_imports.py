"""``import cerebro_spark`` and the list of commands import no Spark; public names stay what they were."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
import typer
from places import ROOT
from typer.testing import CliRunner

import cerebro_spark
from cerebro_spark.cli import app
from udfs.cli import LazyCommands, lazy_command

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = {"pyspark", "torch", "tensorflow", "numpy", "pandas", "pyarrow", "mlflow"}


STEERING = ("serve", "ls", "watch", "stop", "pause", "resume", "clone", "add")


def test_the_program_and_the_commands_of_users_import_no_spark() -> None:
    commands = [["--help"], ["--version"], ["no-such-command"], *([name, "--help"] for name in STEERING)]
    code = f"""
import sys
from cerebro_spark.cli import main
for arguments in {commands!r}:
    sys.argv = ["cerebro", *arguments]
    try:
        main()
    except SystemExit:
        pass
    loaded = {HEAVY!r} & sys.modules.keys()
    assert not loaded, (arguments, loaded)"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_public_name_imports_its_package_alone() -> None:
    code = "import sys; from cerebro_spark import Metric; assert 'cerebro_spark.tune' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("name", cerebro_spark.__all__)
def test_every_public_name_is_there_and_pickled_by_reference(name: str) -> None:
    value = getattr(cerebro_spark, name)
    assert name in dir(cerebro_spark)
    if isinstance(value, type):
        assert pickle.loads(pickle.dumps(value)) is value
        assert getattr(import_module(value.__module__), name) is value


def test_packages_are_attributes() -> None:
    """Packages are attributes, as with eager imports; by the module's own function, whatever is imported already."""
    for name in ("adaptation", "callbacks", "data", "errors", "hopper", "sql", "tune"):
        assert cerebro_spark.__getattr__(name).__name__ == f"cerebro_spark.{name}"
    code = "import cerebro_spark; assert cerebro_spark.errors.__name__ == 'cerebro_spark.errors'"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'cerebro_spark' has no attribute 'GridSerach'"):
        _ = cerebro_spark.GridSerach
    with pytest.raises(ImportError, match="cannot import name 'GridSerach'"):
        exec("from cerebro_spark import GridSerach", {})


def test_old_module_names_of_saved_pipelines_have_the_stages() -> None:
    code = "from cerebro_spark.model import TunedModel; assert TunedModel.__module__ == 'cerebro_spark'"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_list_describes_each_command_as_the_command_does() -> None:
    group = typer.main.get_command(app)
    context = group.make_context("cerebro", [], resilient_parsing=True)
    listed = {name: command.help for name, command in group.commands.items()}  # type: ignore[attr-defined]
    assert len(listed) >= 4
    for name, summary in listed.items():
        command = group.resolve_command(context, [name])[1]  # type: ignore[attr-defined]
        assert command.help.partition("\n\n")[0] == summary
        assert command.name == name


def test_a_command_is_imported_once_and_gets_its_arguments() -> None:
    imports = []
    program = typer.Typer(cls=LazyCommands)

    @lazy_command(program, "greet")
    def _greet() -> Callable[..., None]:
        """Print a greeting."""
        imports.append("greet")

        def greet(name: str, loud: bool = False) -> None:
            """Print a greeting."""
            typer.echo(f"hello {name}{'!' if loud else ''}")

        return greet

    @program.command("plain")
    def _plain() -> None:
        """Print a word."""
        typer.echo("plain")

    runner = CliRunner()
    assert "Print a greeting." in runner.invoke(program, ["--help"]).output
    assert not imports
    assert runner.invoke(program, ["greet", "Ada", "--loud"]).output == "hello Ada!\n"
    assert runner.invoke(program, ["plain"]).output == "plain\n"
    assert "--loud" in runner.invoke(program, ["greet", "--help"]).output
    assert "Missing argument" in runner.invoke(program, ["greet"]).output
