"""A display that is redrawn in place, in a terminal or in a notebook."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from rich import get_console
from rich.live import Live

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["LiveDisplay", "live_display"]

# Seconds between two messages to the browser, which keeps up with more but gains nothing.
_PAUSE_S = 1.0


class LiveDisplay(Protocol):
    """A display that is drawn anew in place, in a terminal or a notebook."""

    def start(self) -> None:
        """Prepare to draw."""

    def update(self, renderable: RenderableType, *, refresh: bool) -> None:
        """Draw this in place of what was drawn before."""

    def note(self, line: str) -> None:
        """Print a line if nothing can be redrawn, as in a file or a pipe."""

    def stop(self) -> None:
        """Draw what was given last; it stays."""


def live_display(*, pause_s: float = _PAUSE_S, ticking: bool = False) -> LiveDisplay:
    """Make a display for where this process's output goes.

    Parameters
    ----------
    pause_s : float
        In a notebook: seconds between two drawings; what comes sooner waits for the next call. Default 1.
    ticking : bool
        In a terminal: draw by itself four times a second, for what has a clock in it.
    """
    if get_console().is_jupyter:
        return _NotebookDisplay(pause_s)
    if not get_console().is_terminal:
        return _LastDrawing()
    return _Terminal(auto_refresh=ticking, transient=False)


class _Terminal(Live):
    """Display of Rich, which redraws a part of the terminal."""

    def note(self, line: str) -> None:
        """Print nothing: the drawing shows it."""


class _LastDrawing:
    """Last drawing, as lines of their own: for a file or a pipe, where Rich ends without a newline."""

    def __init__(self) -> None:
        self._last: RenderableType | None = None

    def start(self) -> None:
        """Draw nothing yet."""

    def update(self, renderable: RenderableType, *, refresh: bool) -> None:
        """Keep it."""
        del refresh
        self._last = renderable

    def note(self, line: str) -> None:
        """Print it."""
        get_console().print(line, soft_wrap=True, markup=False, highlight=False)

    def stop(self) -> None:
        """Draw it."""
        if self._last is not None:
            get_console().print(self._last)
            self._last = None


class _NotebookDisplay:
    """Output of the cell, replaced at each drawing.

    Rich's own way there takes ipywidgets: without it nothing is shown but a warning, and with it nothing stays in the
    saved notebook.
    """

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._handle: Any = None
        self._waiting: RenderableType | None = None
        self._drawn = float("-inf")

    def start(self) -> None:
        """Draw nothing yet."""

    def update(self, renderable: RenderableType, *, refresh: bool) -> None:
        """Draw it, or keep it until the pause is over."""
        self._waiting = renderable
        if refresh and time.monotonic() - self._drawn >= self._pause_s:
            self._draw()

    def note(self, line: str) -> None:
        """Print nothing: the drawing shows it."""

    def stop(self) -> None:
        """Draw what still waits."""
        self._draw()

    def _draw(self) -> None:
        from IPython.display import display  # there is one in a notebook only

        if self._waiting is None:
            return
        if self._handle is None:
            self._handle = display(self._waiting, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(self._waiting)
        self._waiting, self._drawn = None, time.monotonic()
