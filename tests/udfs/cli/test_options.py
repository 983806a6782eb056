"""Options that are generated from a dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from udfs.cli import OptionGroup, parameter_docs, with_options

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Oven:
    """Oven of a bakery.

    Parameters
    ----------
    heat, humidity : float
        Setting of the :class:`Oven`. It is constant.
    mode : {"steam", "air"}
        Mode of
        the oven.
    trays : sequence of str, optional
        Trays from top to bottom.
    door_open : bool
        Whether the door is open.
    """

    heat: float
    humidity: float = 0.5
    mode: str = "air"
    trays: Sequence[str] = ()
    door_open: bool = False


def test_descriptions_are_first_sentences_without_markup() -> None:
    docs = parameter_docs(Oven)
    assert docs["heat"] == docs["humidity"] == ("float", "Setting of the Oven.")
    assert docs["mode"] == ('{"steam", "air"}', "Mode of the oven.")


@pytest.fixture
def bake() -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @with_options(
        oven=OptionGroup(
            Oven,
            ["heat", "mode", "trays", "door_open", "humidity"],
            overrides={"humidity": {"max": 1}},
            defaults={"mode": "steam"},
        )
    )
    def bake(bread: str, oven: dict[str, Any], loud: bool = False) -> None:
        typer.echo(f"{bread} {oven} {loud}")

    return app


def test_a_command_gets_the_values_as_one_dict(bake: typer.Typer) -> None:
    words = ["rye", "--heat", "220", "--trays", "upper, lower", "--door-open"]
    done = CliRunner().invoke(bake, words)
    expected = {"heat": 220.0, "mode": "steam", "trays": ["upper", "lower"], "door_open": True, "humidity": 0.5}
    assert done.stdout == f"rye {expected} False\n", done.output
    # Defaults that no command line can spell are those of the target.
    assert "trays" not in CliRunner().invoke(bake, ["rye", "--heat", "220"]).stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "--heat"),
        (("--heat", "1", "--mode", "stam"), "did you mean 'steam'"),
        (("--heat", "1", "--humidity", "2"), "--humidity"),
        (("--heat", "hot"), "valid number"),
    ],
)
def test_values_are_checked(bake: typer.Typer, words: tuple[str, ...], reason: str) -> None:
    done = CliRunner().invoke(bake, ["rye", *words], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert reason in done.output
