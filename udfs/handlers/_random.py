"""The random numbers that belong to a configuration and hop with it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from udfs.handlers._registry import framework, imported_frameworks

__all__ = ["apply_random", "take_random"]


def take_random() -> dict[str, Any]:
    """Copy the state of this process's generators as data: Python's, numpy's and those of imported frameworks."""
    version, numbers, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()  # what user functions draw from
    state: dict[str, Any] = {
        "python": [version, np.array(numbers, np.uint32), gauss],
        "numpy": [kind, np.asarray(keys), int(position), int(has_gauss), float(cached)],
    }
    for name in imported_frameworks():
        generators = framework(name).take_random()
        if generators is not None:
            state[name] = generators
    return state


def apply_random(state: dict[str, Any]) -> None:
    """Set the generators of this process to a state of :func:`take_random`."""
    version, numbers, gauss = state["python"]
    # At once: trials that train together change places at every step.
    random.setstate((version, tuple(np.asarray(numbers).tolist()), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.asarray(keys), position, has_gauss, cached))
    for name in imported_frameworks():
        if name in state:
            framework(name).apply_random(state[name])
