"""A progress bar for long work, in a terminal and in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from udfs.driver._live_display import live_display

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Progress"]


class Progress:
    """A bar that counts steps, each named as it begins.

    Parameters
    ----------
    shown : bool
        A bar that is not shown costs nothing.
    """

    def __init__(self, title: str, steps: int, *, shown: bool) -> None:
        # Never started: it is only what the display draws.
        self._bar = RichProgress(
            TextColumn("{task.fields[title]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        self._task = self._bar.add_task("", total=steps, title=title)
        # Steps are few and long: each is drawn as it begins.
        self._display = live_display(pause_s=0.0, ticking=True) if shown else None
        self._begun = False

    def __enter__(self) -> Self:
        if self._display is not None:
            self._display.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._begun:
            self._update(advance=1, description="done")
        if self._display is not None:
            self._display.stop()

    def step(self, name: str) -> None:
        """Count the step before as done, and name the one that begins."""
        self._update(advance=1 if self._begun else 0, description=name)
        self._begun = True

    def expect(self, steps: int) -> None:
        """Correct how many steps there will be in all."""
        self._update(total=steps)

    def _update(
        self, *, advance: float | None = None, description: str | None = None, total: float | None = None
    ) -> None:
        self._bar.update(self._task, advance=advance, description=description, total=total)
        if self._display is not None:
            self._display.update(self._bar, refresh=True)
