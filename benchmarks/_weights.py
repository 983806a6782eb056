"""Which weights a benchmark runs a model with."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from weights import mobilenet_v2  # a program of the examples, not a package

__all__ = ["found_weights"]


def found_weights(wanted: str, model: str) -> str | None:
    """A path, or ``None`` for random weights.

    Parameters
    ----------
    wanted : str
        A path, ``"random"``, or ``"auto"``: the ImageNet ones of ``mobilenet_v2`` if they are installed.
    model : str
    """
    if wanted != "auto":
        return None if wanted == "random" else wanted
    try:
        return str(mobilenet_v2()) if model == "mobilenet_v2" else None
    except FileNotFoundError:
        return None
