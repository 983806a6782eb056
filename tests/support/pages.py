"""Texts and controls of the pages of experiments, in a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from browser import Page

__all__ = ["button", "cell", "confirm", "count", "ids", "open_experiment", "wait_for_cell"]

_ROW = "document.querySelector('#configurations tr[data-id={id}]')"
_COLUMNS = "[...document.querySelectorAll('#configurations thead th')].map(each => each.innerText.trim())"


def open_experiment(page: Page, url: str) -> None:
    """Open the page of a run, and wait until it has all data."""
    page.visit(url)
    page.wait("document.querySelector('[data-ready]') !== null")


def cell(trial: str, column: str) -> str:
    """Write JavaScript that returns the text of a cell, undefined for a row that is not rendered."""
    return f"{_ROW.format(id=trial)}?.cells[{_COLUMNS}.indexOf({json.dumps(column)})]?.innerText.trim()"


def wait_for_cell(page: Page, trial: str, column: str, text: str) -> None:
    """Wait until a cell has a text."""
    page.wait(f"{cell(trial, column)} === {json.dumps(text)}")


def ids(page: Page) -> list[str]:
    """List the configurations whose rows are rendered, from top to bottom."""
    return list(page.value("[...document.querySelectorAll('#configurations tr[data-id]')].map(row => row.dataset.id)"))


def button(trial: str, action: str) -> str:
    """Return the selector of a control of a configuration."""
    return f"#configurations tr[data-id={trial}] [data-action={action}]"


def confirm(page: Page, *effect: str) -> None:
    """Wait until the dialog shows the effect, and confirm it."""
    for text in effect:
        page.wait(f"document.querySelector('dialog .effect').innerText.includes({json.dumps(text)})")
    page.click("dialog button[type=submit]")
    page.wait("document.querySelector('dialog') === null")


def count(page: Page, selector: str) -> int:
    """Count the elements of a selector."""
    return int(page.value(f"document.querySelectorAll({json.dumps(selector)}).length"))
