"""Plotly, for figures that say more under the pointer: an optional package."""

from __future__ import annotations

from typing import Any

__all__ = ["graph_objects"]


def graph_objects() -> Any:
    """Import ``plotly.graph_objects``.

    Raises
    ------
    ImportError
        Plotly is not installed.
    """
    try:
        import plotly.graph_objects as go  # optional
    except ImportError as error:
        raise ImportError("interactive figures need plotly: pip install 'cerebro-spark[plot]'") from error
    return go
