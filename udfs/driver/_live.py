"""A table that is drawn anew where it stands, in a terminal or in a notebook."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from rich import get_console
from rich.live import Live

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["LiveTable", "live_table"]

# Seconds between two messages to the browser, which keeps up with more but gains nothing.
_SHOWN_S = 1.0


class LiveTable(Protocol):
    """What both are."""

    def start(self) -> None:
        """Before the first table."""

    def update(self, table: Table, *, refresh: bool) -> None:
        """Draw this one instead."""

    def stop(self) -> None:
        """The last one stays."""


def live_table() -> LiveTable:
    """One for where this process's output goes."""
    return _NotebookTable() if get_console().is_jupyter else Live(auto_refresh=False, transient=False)


class _NotebookTable:
    """An output of the cell that is replaced.

    Rich's own way there takes ipywidgets: without it nothing is shown, and with it nothing stays in the saved notebook.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._waiting: Table | None = None
        self._shown = 0.0

    def start(self) -> None:
        """Nothing is shown yet."""

    def update(self, table: Table, *, refresh: bool) -> None:
        """Show it, or keep it until the last one was long enough ago."""
        self._waiting = table
        if refresh and time.monotonic() - self._shown >= _SHOWN_S:
            self._show()

    def stop(self) -> None:
        """Show the last one."""
        self._show()

    def _show(self) -> None:
        from IPython.display import display  # noqa: PLC0415 - there is one in a notebook only

        if self._waiting is None:
            return
        if self._handle is None:
            self._handle = display(self._waiting, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(self._waiting)
        self._waiting, self._shown = None, time.monotonic()
