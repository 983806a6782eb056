"""Study: the timed processes of the figures, and the output of tables and pictures."""

from __future__ import annotations

import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.transfer._job import Job, Outcome, Warmup
from benchmarks.transfer._master import Master

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

    from matplotlib.figure import Figure

    from benchmarks.harness.report import Report
    from benchmarks.transfer._job import Setup

__all__ = ["Cell", "Study", "Timed"]

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Cell:
    """A transfer and the cores that it gets."""

    cores: int
    job: Job


@dataclass(frozen=True, slots=True)
class Timed:
    """Outcomes of one cell, one a repeat."""

    outcomes: tuple[Outcome, ...]

    @property
    def seconds(self) -> float:
        """Median of the inference; infinite where the planner refused."""
        return statistics.median(outcome.inference_seconds for outcome in self.outcomes)

    @property
    def total(self) -> float:
        """Median of everything."""
        return statistics.median(outcome.total_seconds for outcome in self.outcomes)

    @property
    def one(self) -> Outcome:
        """One outcome, for the decisions, which are the same in every repeat."""
        return self.outcomes[0]

    @property
    def columns(self) -> tuple[str, str, str]:
        """Inference with its range, the rest, and the decisions, for a table."""
        if self.one.refused:
            return "refused", "", self.one.refused
        found = [outcome.inference_seconds for outcome in self.outcomes]
        spread = f" ({min(found):.2f} to {max(found):.2f})" if len(found) > 1 else ""
        one = self.one
        count = f"{one.partitions} partition{'s' if one.partitions > 1 else ''}"
        passes = f"{one.passes} pass{'es' if one.passes > 1 else ''}"
        said = f"{one.logical}: {passes}, {one.join} join, {one.persistence}, {count}"
        return f"{self.seconds:.2f}{spread}", f"{self.total - self.seconds:.2f}", said


@dataclass
class Study:
    """A run of some figures.

    Parameters
    ----------
    setup : Setup
    images : int
        The scale 1x.
    layers : tuple of str
        From the bottom to the top.
    cores, repeats : int
    train : bool
        Train in every figure.
    report : Report
    out : Path
        Folder of the pictures.
    """

    setup: Setup
    images: int
    layers: tuple[str, ...]
    cores: int
    repeats: int
    train: bool
    report: Report
    out: Path
    _masters: dict[int, Master] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def master(self, cores: int) -> Master:
        """The process for a number of cores; it stays until the end."""
        if cores not in self._masters:
            self._masters[cores] = self._stack.enter_context(Master(cores, self.setup))
        return self._masters[cores]

    def job(self, plan: str = "auto", *, scale: int = 1, top: int | None = None, **settings: Any) -> Job:
        """A transfer of the images at a scale, with all layers or the topmost so many."""
        layers = self.layers[-(top or len(self.layers)) :]
        return Job(self.images * scale, layers, plan, **{"train": self.train, **settings})

    def time(self, figure: str, cells: Mapping[Name, Cell]) -> dict[Name, Timed]:
        """Run all cells in turns, in every second repeat the other way round, so that a drift of the machine cancels.

        Parameters
        ----------
        figure : str
            For the line that tells how far it is.
        cells : mapping of name to Cell
        """
        for cell in cells.values():
            self.master(cell.cores).run(Warmup(cell.job))
        found: dict[Name, list[Outcome]] = {name: [] for name in cells}
        for repeat in range(self.repeats):
            names = list(cells)
            for name in names if repeat % 2 == 0 else reversed(names):
                cell = cells[name]
                outcome = self.master(cell.cores).run(cell.job)
                found[name].append(outcome)
                print(f"{figure}, {name}: {outcome.inference_seconds:.2f} s", file=sys.stderr, flush=True)
        return {name: Timed(tuple(outcomes)) for name, outcomes in found.items()}

    def save(self, figure: Figure, name: str) -> None:
        """Write a picture and note its path."""
        path = self.out / f"{name}.png"
        figure.savefig(path, dpi=120)
        self.report.note(f"Picture: {path}")
