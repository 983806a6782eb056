"""The output of every benchmark: a table to read, and with ``--json`` one object of ratios as the last line."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Report", "load_average"]


_SMALL = 1e-3


@dataclass
class Report:
    """Tables, notes and ratios of one benchmark.

    Parameters
    ----------
    title : str
        What was run, on what.
    """

    title: str
    ratios: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    _parts: list[Table | str] = field(default_factory=list)
    _said: list[tuple[str, str, str]] = field(default_factory=list)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; all columns but the first are aligned to the right, the last one is prose."""
        table = Table(title=title, title_justify="left", title_style="bold")
        for place, column in enumerate(columns):
            table.add_column(column, justify="right" if 0 < place < len(columns) - 1 else "left")
        for row in rows:
            table.add_row(*row)
        self._parts.append(table)

    def note(self, text: str) -> None:
        """Add a line of prose: the comparison and its caveats."""
        self._parts.append(text)

    def ratio(self, name: str, value: float, meaning: str, target: float | None = None) -> None:
        """Add a ratio, of which ``meaning`` says what is compared.

        Parameters
        ----------
        name : str
            Key of the JSON object.
        value : float
            Ratio.
        meaning : str
            Numerator and denominator, in words.
        target : float, optional
            Value to reach: at most this where ``meaning`` divides by a goal, else at least.
        """
        # An error of 1e-6 is not 0.
        small = 0 < abs(value) < _SMALL
        self.ratios[name] = float(f"{value:.2e}") if small else round(value, 4)
        reached = "" if target is None else f" (to reach: {target:g})"
        self._said.append((name, f"{value:.1e}" if small else f"{value:.3f}", meaning + reached))

    def fact(self, name: str, value: Any) -> None:
        """Add a value that is not a ratio, for the JSON object only."""
        self.facts[name] = value

    def show(self, *, as_json: bool) -> None:
        """Print everything; with ``as_json`` the last line is ``{"ratios": {name: number, ...}}``, and any facts."""
        self.table("Ratios", ("name", "ratio", "meaning"), self._said)
        # A pipe has no width of its own: 80 columns would fold every line.
        width = None if Console().is_terminal else 160
        console = Console(width=width, highlight=False)
        console.print(self.title, style="bold")
        for part in self._parts:
            console.print(part, markup=False) if isinstance(part, str) else console.print(part)
        if as_json:
            print(json.dumps({"ratios": self.ratios} | ({"facts": self.facts} if self.facts else {})), flush=True)


def load_average() -> str:
    """Load average of the machine, which identifies figures from a busy one."""
    return ", ".join(f"{load:.1f}" for load in os.getloadavg())
