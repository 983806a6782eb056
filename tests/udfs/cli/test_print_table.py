"""Tables of commands keep their values whole, in terminals of any width, files and pipes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from udfs.cli import print_table


@pytest.mark.parametrize("width", ["40", "80", "400"])
def test_no_value_of_a_table_is_cut(width: str) -> None:
    table = Table("model", "address", "digest")
    values = [f"https://example.org/{'models/' * 12}{number}.pth" for number in range(3)]
    for number, value in enumerate(values):
        table.add_row(f"m{number}", value, "sha256:0123456789")
    console = Console(file=io.StringIO(), width=int(width))
    print_table(table, console)
    printed = console.file.getvalue()
    assert all(value in printed for value in values)


def test_words_take_several_lines() -> None:
    words = Table("model", "layers")
    words.add_row("a_model_with_a_long_name", ", ".join(f"layer{number}" for number in range(30)))
    console = Console(file=io.StringIO(), width=30)
    print_table(words, console, wrapped=True)
    letters = "".join(filter(str.isalnum, console.file.getvalue()))
    assert "\N{HORIZONTAL ELLIPSIS}" not in console.file.getvalue()
    assert all(f"layer{number}" in letters for number in range(30))
