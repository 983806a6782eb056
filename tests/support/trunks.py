"""Models with frozen layers for the tests, opened as far as the trunk needs it."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pyspark import cloudpickle

from udfs.handlers import TensorSpec, framework

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from optimizer.graph import LayerGraph

__all__ = ["WIDTHS", "OpenedTrunk", "open_trunk", "passed"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers do not have this folder

WIDTHS = (6, 8, 5, 4)


class OpenedTrunk:
    """A traced torch model; it counts how often each layer ran, and over how many rows."""

    def __init__(self, model: torch.nn.Module, inputs: Sequence[TensorSpec]) -> None:
        self.model = model
        self._traced = framework("torch").trace(model.eval(), inputs)
        self.runs: Counter[str] = Counter()
        self.log: str | None = None

    @property
    def graph(self) -> LayerGraph:
        return self._traced.graph

    def trunk(self, have: Mapping[str, np.ndarray], want: Sequence[str]) -> dict[str, np.ndarray]:
        self.runs.update(self.graph.part(have=have, want=want).layers)
        if self.log is not None:
            rows = len(next(iter(have.values()))) if set(have) & set(self.graph.inputs) else 0
            with Path(self.log).open("a") as file:
                file.write(f"{rows}\n")
        return self._traced.run(have, want)

    def expressions(self) -> list[str]:
        """Expressions of the layers, in their order."""
        return [self.graph.expression(name) for name in self.graph.names]


def open_trunk(params: Mapping[str, Any]) -> OpenedTrunk:
    """Open a perceptron with tanh between its layers, whose last one is a head that learns.

    ``params``: ``seed`` of the head, ``depth`` of the frozen part (three layers that all share), seed of the ``trunk``,
    ``log`` for the numbers of rows that pass from the inputs on.
    """
    torch.manual_seed(params.get("trunk", 0))
    layers: list[torch.nn.Module] = []
    for wide, narrow in itertools.pairwise(WIDTHS):
        layers += [torch.nn.Linear(wide, narrow), torch.nn.Tanh()]
    layers = layers[: 2 * params.get("depth", 3)]
    for layer in layers:
        layer.requires_grad_(False)
    torch.manual_seed(params.get("seed", 0))
    wide = WIDTHS[params.get("depth", 3)]
    opened = OpenedTrunk(torch.nn.Sequential(*layers, torch.nn.Linear(wide, 2)), [TensorSpec((WIDTHS[0],))])
    opened.log = params.get("log")
    return opened


def passed(log: Path) -> int:
    """Count the rows that passed a trunk from its inputs on, in whatever process."""
    return sum(map(int, log.read_text().split())) if log.exists() else 0
