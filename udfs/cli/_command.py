"""Shared parts of the commands of both public packages: options, output folders and the end of a run."""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
from rich.console import Console

from optimizer import __version__
from optimizer.arguments import choice_error
from optimizer.errors import CerebroError, InvalidArgumentError
from udfs.cli._jvm_logging import quiet_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.table import Table

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "USAGE",
    "Device",
    "Json",
    "Master",
    "OutFolder",
    "OutPlace",
    "TableFormat",
    "Version",
    "choice",
    "comma_separated",
    "ended_by_interrupt",
    "out_file",
    "out_folder",
    "picture_file",
    "print_json",
    "print_table",
    "refused_before_spark",
    "run_command",
    "show_version",
]

USAGE = 2
"""Exit code: an argument or a file is wrong, and nothing was started or written."""

FAILED = 1
"""Exit code: the job failed."""

INTERRUPTED = 130
"""Exit code: the user interrupted the job; a shell's own for it."""

# A drive of Windows is one letter.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_MASTER = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+")
_STDOUT: ContextVar[TextIO] = ContextVar("stdout")
# Characters of a line of a table, at most.
_WIDEST = 2000
_PICTURES = (".png", ".svg", ".pdf", ".jpg")


@contextmanager
def refused_before_spark() -> Iterator[None]:
    """End the process with one line and exit code 2 for what is wrong with a command's arguments or files."""
    try:
        yield
    except CerebroError as error:
        _end(USAGE, type(error).__name__, str(error))


@contextmanager
def ended_by_interrupt(remedy: Callable[[], str]) -> Iterator[None]:
    """End the process with one line and exit code 130 where the user interrupts the block.

    Parameters
    ----------
    remedy : callable
        Gives the line: what is left, and how to go on.
    """
    try:
        yield
    except KeyboardInterrupt:
        _end(INTERRUPTED, "Interrupted", remedy())


def run_command(app: Callable[[], object]) -> None:
    """Run a typer app: an error of this project or of Spark is one line and exit code 1, a warning one loud line.

    Parameters
    ----------
    app : callable
        Usage errors end the command with exit code 2.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    warnings.showwarning = _show_warning
    quiet_spark()
    try:
        app()
    except CerebroError as error:
        _end(FAILED, type(error).__name__, str(error))
    except KeyboardInterrupt:
        _end(INTERRUPTED, "Interrupted", "nothing goes on")
    except (OSError, MemoryError) as error:
        # A disk that is full, a folder that went away: what the machine did, and no fault of the program.
        _end(FAILED, type(error).__name__, str(error) or "no memory is left")
    except Exception as error:
        if not _is_sparks(error):
            raise
        from udfs.driver import cause  # Spark is imported already

        _end(FAILED, "Spark", str(cause(error)))


def _is_sparks(error: Exception) -> bool:
    """Check for an error of Spark without importing Spark, which a command that raises one has done."""
    errors = sys.modules.get("pyspark.errors")
    return errors is not None and isinstance(error, errors.PySparkException)


def print_table(table: Table, console: Console | None = None, *, wrapped: bool = False) -> None:
    """Print a table without cutting a value, wherever the output goes.

    Parameters
    ----------
    table : rich.table.Table
        Table to print; its columns are changed. If the rows do not fit into the terminal, it is printed without lines
        between the columns, and the terminal breaks the rows: addresses and paths can be copied and searched.
    console : rich.console.Console, optional
        Place for the table; standard output by default.
    wrapped : bool
        Whether a row may take several lines, for columns of many words. Default false.
    """
    console = console or Console()
    for column in table.columns:
        column.overflow = "fold"
        column.no_wrap = not wrapped
    if not wrapped:
        natural = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
        if natural > console.width:
            table.box = None
            console = Console(file=console.file, width=natural)
    console.print(table)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a warning without the line of code that gave it, which says nothing to a user of a command."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"{category.__name__}: {message}", style="bold red", markup=False)


def _end(code: int, kind: str, message: str) -> NoReturn:
    sys.stderr.write(f"{kind}: {message}\n")
    raise SystemExit(code)


def show_version(value: bool) -> None:
    """End the process with the version alone, where ``--version`` asks for it."""
    if value:
        typer.echo(f"cerebro-spark {__version__}")
        raise typer.Exit


def _json(context: typer.Context, value: bool) -> bool:
    """Send all output to stderr while the command runs, that of libraries included: stdout is for the object."""
    if value and not context.resilient_parsing:
        _STDOUT.set(sys.stdout)
        context.with_resource(redirect_stdout(sys.stderr))
    return value


def print_json(facts: Mapping[str, Any]) -> None:
    """Print the one object of ``--json``.

    Parameters
    ----------
    facts : mapping
        Values that JSON holds; infinities and not-a-number are no part of it.
    """
    stdout = _STDOUT.get()
    stdout.write(f"{json.dumps(facts, allow_nan=False)}\n")
    stdout.flush()


def choice(*allowed: str) -> Callable[[str], str]:
    """Make the parser of an option that takes one of some words; a wrong one is answered with the nearest."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(choice_error("the value", text, allowed))
        return text

    return parse


def comma_separated(text: str | None) -> list[str] | None:
    """Split names with commas; ``None`` stays.

    Examples
    --------
    >>> comma_separated("price, weight")
    ['price', 'weight']
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def out_folder(text: str | Path) -> Path:
    """Read ``--out``: a folder of this machine, which need not exist.

    Raises
    ------
    typer.BadParameter
        A URI, or a file.
    """
    path = _local(text, "a folder")
    if path.exists() and not path.is_dir():
        raise typer.BadParameter(f"{str(text)!r} is a file: name a folder")
    return path


def picture_file(text: str | Path) -> Path:
    """Read where to draw: a file of this machine whose ending is a picture's.

    Raises
    ------
    typer.BadParameter
        A URI, a folder, or another ending.
    """
    path = out_file(text)
    if path.suffix.lower() not in _PICTURES:
        raise typer.BadParameter(f"a picture ends with {', '.join(_PICTURES)}, got {str(text)!r}")
    return path


def out_file(text: str | Path) -> Path:
    """Read where to write: a file of this machine.

    Raises
    ------
    typer.BadParameter
        A URI, or a folder.
    """
    path = _local(text, "a file")
    if path.is_dir():
        raise typer.BadParameter(f"{str(text)!r} is a folder: name a file")
    return path


def _local(text: str | Path, kind: str) -> Path:
    if _SCHEME.match(str(text)):
        raise typer.BadParameter(f"{str(text)!r} is a URI: results are written to {kind} of this machine; copy it then")
    return Path(text)


def _master(text: str) -> str:
    if not _MASTER.fullmatch(text):
        raise typer.BadParameter(
            f"a master is local[*], spark://..., yarn, k8s://..., or sc://... for Connect, got {text!r}"
        )
    return text


def _device(text: str) -> str:
    from udfs.node import check_device  # imports Spark

    try:
        return check_device(text)
    except InvalidArgumentError as error:
        raise typer.BadParameter(str(error)) from None


Version = Annotated[
    bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version, and end.")
]
Master = Annotated[
    str | None,
    typer.Option(help="local[*], spark://..., yarn, k8s://..., sc://... for Connect.", parser=_master, metavar="TEXT"),
]
Device = Annotated[
    str, typer.Option(help="auto (an accelerator where there is one), cpu, cuda, ...", parser=_device, metavar="TEXT")
]
TableFormat = Annotated[
    str | None,
    typer.Option(
        help="Spark's reader of the table: csv, json, orc, parquet, delta, iceberg, ..., or catalog where --table is a "
        "table's name; by the ending otherwise."
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", callback=_json, help="Print one JSON object on stdout, and all else on stderr."),
]
OutPlace = Annotated[
    str,
    typer.Option(
        help="Folder, or URI that driver and workers write to (s3://, hdfs://, gs://), for the tables, pictures and "
        "the best model; in a folder also MLflow's files.",
        metavar="PLACE",
    ),
]
OutFolder = Annotated[
    Path,
    typer.Option(
        help="Folder for the tables, the pictures, the best model and MLflow's files.",
        parser=out_folder,
        metavar="FOLDER",
    ),
]
