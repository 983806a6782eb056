"""A matplotlib figure that a notebook shows without pyplot, and so without its global state."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from optimizer.notebook import html_picture, html_text

__all__ = ["NotebookFigure", "picture_and_words"]


class NotebookFigure(Figure):
    """``Figure`` with the picture that IPython asks an object for."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def picture_and_words(figure: Figure, text: str) -> str:
    """Make HTML of a figure, with its description below it and in its place."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return html_picture(buffer.getvalue(), text) + html_text(text)
