"""A bar for long work, in a terminal and in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Progress"]


class Progress:
    """Counts steps that are named as they begin.

    Parameters
    ----------
    title : str
    steps : int
        How many there will be.
    shown : bool
        A bar that is not shown costs nothing.
    """

    def __init__(self, title: str, steps: int, *, shown: bool) -> None:
        self._bar = RichProgress(
            TextColumn("{task.fields[title]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            disable=not shown,
        )
        self._task = self._bar.add_task("", total=steps, title=title)
        self._begun = False

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._begun:
            self._bar.update(self._task, advance=1, description="done")
        self._bar.stop()

    def step(self, name: str) -> None:
        """The step before is done, ``name`` begins."""
        self._bar.update(self._task, advance=1 if self._begun else 0, description=name)
        self._begun = True

    def expect(self, steps: int) -> None:
        """How many steps there will be in all, once that is known better."""
        self._bar.update(self._task, total=steps)
