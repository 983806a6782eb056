"""Group of commands whose modules are imported once a command is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LazyCommands", "lazy_command"]

_MARK = "returns_command"


class LazyCommands(TyperGroup):
    """Group for ``typer.Typer(cls=LazyCommands)``: ``--help`` of the program imports none of its lazy commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command in ``args``, the command and the other arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        load = getattr(command, "callback", None)
        if name is not None and hasattr(load, _MARK):
            command = self.commands[name] = _typer_command(name, getattr(load, _MARK)())
        return name, command, rest


def lazy_command(app: typer.Typer, name: str) -> Callable[[Callable[[], Callable[..., Any]]], None]:
    """Register a command by the function that imports it.

    Parameters
    ----------
    app : typer.Typer
        Program, whose ``cls`` is :class:`LazyCommands`.
    name : str
        Name of the command.

    Returns
    -------
    callable
        Decorator of the function, which returns the command. Its docstring is the help of the command in the list of
        all commands.

    Examples
    --------
    >>> program = typer.Typer(cls=LazyCommands)
    >>> @lazy_command(program, "tune")
    ... def _tune():
    ...     "Train the configurations of a search."
    ...     from cerebro_spark.cli._tune import tune_command
    ...     return tune_command
    """

    def register(load: Callable[[], Callable[..., Any]]) -> None:
        def called_lazily() -> None:
            raise AssertionError(f"{name} must be called through a program of the class LazyCommands")

        setattr(called_lazily, _MARK, load)
        app.command(name, help=load.__doc__)(called_lazily)

    return register


def _typer_command(name: str, function: Callable[..., Any]) -> Any:
    program = typer.Typer(add_completion=False)
    program.command(name)(function)
    return typer.main.get_command(program)
