"""Rich display of values in notebooks: words, tables and pictures, as HTML without scripts and style sheets."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ExplainedInNotebooks", "html_details", "html_picture", "html_table", "html_text"]

_PLAIN = "text-align:left;white-space:pre-wrap;margin:0"


class ExplainedInNotebooks:
    """A value whose ``explain()`` is what a notebook shows of it."""

    __slots__ = ()

    def explain(self) -> str:
        """Describe the value in words."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_text(self.explain())


def html_text(text: str) -> str:
    """Show lines as they are, whatever characters are in them.

    Examples
    --------
    >>> html_text("a < b").endswith('>a &lt; b</pre>')
    True
    """
    return f'<pre style="{_PLAIN}">{escape(text)}</pre>'


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Show rows; numbers that are no whole ones have four digits, and what there is not is empty.

    Examples
    --------
    >>> html_table(["layer", "F1"], [("pool", 0.93751)])
    '<table><tr><th>layer</th><th>F1</th></tr><tr><td>pool</td><td>0.9375</td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def html_details(title: str, content: str) -> str:
    """Fold HTML away under a title, which opens it.

    Examples
    --------
    >>> html_details("plan", "<b>staged</b>")
    '<details><summary>plan</summary><b>staged</b></details>'
    """
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def html_picture(png: bytes, text: str) -> str:
    """Show a picture, which a saved notebook keeps.

    ``text`` is for those who cannot see it.

    Examples
    --------
    >>> html_picture(b"", "a cat")
    '<img alt="a cat" src="data:image/png;base64,"/>'
    """
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{base64.b64encode(png).decode()}"/>'


def _shown(value: object) -> str:
    if value is None or value != value:  # NaN
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
