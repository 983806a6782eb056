"""The documents name what there is: modules and functions, keywords, files, options of the commands, make's targets."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
import typer
from places import ROOT
from sessions import CONNECT

from cerebro_spark.cli import app as cerebro
from udfs.driver._keywords import FORMER_NAMES
from udfs.handlers import ENTRY_POINTS
from vista_spark.cli import app as vista

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(CONNECT, reason="once is enough")

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MIGRATION = ROOT / "docs" / "migration.md"
GLOSSARY = ROOT / "docs" / "glossary.md"

PACKAGES = "vista_spark|cerebro_spark|udfs|optimizer"
FOLDERS = f"{PACKAGES}|tests|docs|examples|benchmarks|notebooks"
DOTTED = re.compile(rf"(?<![\w./-])(?:{PACKAGES})(?:\.[A-Za-z_]\w*)+")
IN_TREE = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w./*-]*")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^[ ]*```(\w*)\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
MAKE = re.compile(r"(?:`|^)make ([a-z][\w-]*)", re.MULTILINE)
# Words after the path of a package that are no attribute of it: file endings.
ENDINGS = {"py", "md", "ipynb", "txt"}


# Airflow has an environment of its own: the tests of this package import it beside a stand-in.
OWN_TESTS = "cerebro_spark.airflow"


def text_of(document: Path) -> str:
    """Read a document; of a row of migration.md without its last cell, which has the former name."""
    text = document.read_text()
    if document != MIGRATION:
        return text
    return "\n".join(
        line.rstrip("| ").rpartition("|")[0] if line.startswith("|") else line for line in text.splitlines()
    )


def blocks(document: Path, *languages: str) -> list[str]:
    """Find the code blocks of some languages."""
    return [inspect.cleandoc(body) for language, body in FENCE.findall(document.read_text()) if language in languages]


def resolve(dotted: str) -> Any:
    """Import the longest module of a dotted name, and follow the rest.

    Raises
    ------
    AttributeError, ImportError
        There is no such name.
    """
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if not ".".join(parts[:count]).startswith(str(error.name)):
                raise  # a package of another project is missing
            continue
        for part in parts[count:]:
            # A dataclass's field without a default is no attribute of the class.
            value = vars(value).get("__dataclass_fields__", {}).get(part) or getattr(value, part)
        return value
    raise ImportError(dotted)


def missing(names: Iterator[str] | set[str]) -> list[str]:
    """List the dotted names that are not there."""
    absent = []
    for name in sorted(each for each in set(names) if not each.startswith(OWN_TESTS)):
        try:
            resolve(name)
        except (AttributeError, ImportError):
            absent.append(name)
    return absent


def imported(block: str) -> dict[str, str]:
    """Name what a block of Python imports from this project, by the name that it has in the block."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom)
        and re.match(rf"(?:{PACKAGES})\b", node.module or "")
        and node.module != OWN_TESTS
        for alias in node.names
    }


def wrong_keywords(block: str, known: dict[str, str]) -> list[str]:
    """List the keywords of calls in a block that the called function does not have."""
    wrong = []
    for node in ast.walk(ast.parse(block)):
        if not isinstance(node, ast.Call):
            continue
        name, *attributes = ast.unparse(node.func).split(".")
        if name not in known or not all(part.isidentifier() for part in attributes):
            continue
        called = resolve(".".join((known[name], *attributes)))
        taken = inspect.signature(called).parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
            continue
        wrong += [f"{ast.unparse(node.func)}({word.arg}=)" for word in node.keywords if word.arg not in {None, *taken}]
    return wrong


def commands(document: Path) -> Iterator[list[str]]:
    """Split the commands ``vista`` and ``cerebro`` of a document's blocks into words."""
    for block in blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            for name in ("vista", "cerebro"):
                if name in words:
                    yield words[words.index(name) :]


def options(application: typer.Typer) -> dict[str, set[str]]:
    """Name the options of each command of an application."""
    group: Any = typer.main.get_command(application)
    context = group.make_context("program", [], resilient_parsing=True)
    commands = {name: group.resolve_command(context, [name])[1] for name in list(group.commands)}
    return {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands.items()
    }


COMMANDS = {"vista": options(vista), "cerebro": options(cerebro)}

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


@documents
def test_names_are_there(document: Path) -> None:
    named = {name for name in DOTTED.findall(text_of(document)) if name.rpartition(".")[2] not in ENDINGS}
    assert not missing(named - {ENTRY_POINTS, "cerebro_spark.pages"})


@documents
def test_files_are_there(document: Path) -> None:
    text = text_of(document)
    named = {path.rstrip(".") for path in IN_TREE.findall(text)}
    assert not [path for path in sorted(named) if not any(ROOT.glob(path.rstrip("/")))]
    assert not [link for link in sorted(set(LINK.findall(text))) if not (document.parent / link).exists()]


@documents
def test_python_has_names_and_keywords_of_today(document: Path) -> None:
    """Imports of one block hold for those after it, as for a reader."""
    known: dict[str, str] = {}
    for block in blocks(document, "python"):
        known |= imported(block)
        assert not missing(set(known.values()))
        assert not wrong_keywords(block, known)


@documents
def test_commands_have_the_options(document: Path) -> None:
    for program, command, *words in commands(document):
        assert command in COMMANDS[program], f"{program} {command}"
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert not used - COMMANDS[program][command], f"{program} {command}"


@documents
def test_make_has_the_targets(document: Path) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert not set(MAKE.findall(document.read_text())) - targets


def test_contributing_has_every_target() -> None:
    """Those that ``make help`` shows."""
    shown = set(re.findall(r'@echo "make ([\w-]+)', (ROOT / "Makefile").read_text()))
    assert shown
    assert not shown - set(MAKE.findall((ROOT / "CONTRIBUTING.md").read_text()))


def test_contributing_has_every_package() -> None:
    """Of the four rooms, in the table of the layout."""
    packages = {path.parent.name for room in PACKAGES.split("|") for path in (ROOT / room).glob("*/__init__.py")}
    assert packages
    assert not packages - set(re.findall(r"(\w+)/`", (ROOT / "CONTRIBUTING.md").read_text()))


def test_the_glossary_is_in_order_and_complete() -> None:
    rows = [line.strip("| ").split(" | ") for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")][1:]
    terms = [row[0].casefold() for row in rows]
    assert terms == sorted(set(terms))
    assert not [row for row in rows if len(row) != 3 or not all(cell.strip() for cell in row)]  # term, meaning, where


@pytest.mark.parametrize("former", FORMER_NAMES)
def test_a_keyword_with_a_hint_has_a_row_in_migration(former: str) -> None:
    """The last cell of a row has the former name, the one before it today's."""
    rows = [line.strip("| ").split(" | ") for line in MIGRATION.read_text().splitlines() if line.startswith("| ")]
    today = " ".join(row[-2] for row in rows if re.search(rf"\b{former}\b", row[-1]))
    assert all(re.search(rf"\b{name}\b", today) for name in FORMER_NAMES[former]), today


def test_the_tables_of_migration_have_no_empty_cell() -> None:
    rows = [line for line in MIGRATION.read_text().splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")]
    assert rows
    assert not [cell for cell in cells if cell in {"", "mixed"}]
