"""The cost of a heat map's places on this machine, measured once and remembered."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING

from optimizer import __version__
from udfs.node import node_folder, written_once
from udfs.occlusion import CostModel

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cost_model"]


def cost_model(measure: Callable[[], CostModel], key: tuple[object, ...]) -> CostModel:
    """Measure once on this machine, and remember the result in the node's cache folder.

    Parameters
    ----------
    measure : callable
    key : tuple
        The network, the patch and its places, the mode, and what computes them.
    """
    of = (*key, __version__, platform.processor(), platform.machine())
    path = node_folder("explanations") / f"{hashlib.sha256(repr(of).encode()).hexdigest()}.json"
    if path.is_file():
        return CostModel(**json.loads(path.read_text()))
    measured = measure()
    with written_once(path) as partial:
        partial.write_text(json.dumps(asdict(measured)))
    return measured
