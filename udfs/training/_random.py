"""The random numbers that belong to a configuration and hop with it."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

__all__ = ["apply_random", "take_random"]


def take_random() -> dict[str, Any]:
    """State of Python's, numpy's and torch's generators of this process, as data."""
    version, numbers, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - what user functions draw from
    found: dict[str, Any] = {
        "python": [version, np.array(numbers, np.uint32), gauss],
        "numpy": [kind, np.asarray(keys), int(position), int(has_gauss), float(cached)],
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = torch.get_rng_state().numpy()
    return found


def apply_random(state: dict[str, Any]) -> None:
    """Let the generators of this process go on from a state."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(int(number) for number in np.asarray(numbers)), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.asarray(keys), position, has_gauss, cached))  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))
