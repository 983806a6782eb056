"""Models with frozen layers for the tests, opened as far as the trunk needs it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from udfs.handlers import TensorSpec, framework

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from optimizer.graph import LayerGraph

__all__ = ["WIDTHS", "OpenedTrunk", "open_trunk"]

WIDTHS = (6, 8, 5, 4)


class OpenedTrunk:
    """A traced torch model; it counts how often each layer ran, and over how many rows."""

    def __init__(self, model: torch.nn.Module, inputs: Sequence[TensorSpec]) -> None:
        self.model = model
        self._traced = framework("torch").trace(model.eval(), inputs)
        self.runs: Counter[str] = Counter()
        self.rows: list[int] = []

    @property
    def graph(self) -> LayerGraph:
        return self._traced.graph

    def trunk(self, have: Mapping[str, np.ndarray], want: Sequence[str]) -> dict[str, np.ndarray]:
        self.runs.update(self.graph.part(have=have, want=want).layers)
        self.rows.append(len(next(iter(have.values()))))
        return self._traced.run(have, want)

    def expressions(self) -> list[str]:
        """Expressions of the layers, in their order."""
        return [self.graph.expression(name) for name in self.graph.names]


def open_trunk(params: Mapping[str, Any]) -> OpenedTrunk:
    """Open a perceptron with tanh between its layers, whose last one is a head that learns.

    ``params``: ``seed`` of the head, ``depth`` of the frozen part (three layers that all share), ``trunk`` seed.
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
    return OpenedTrunk(torch.nn.Sequential(*layers, torch.nn.Linear(wide, 2)), [TensorSpec((WIDTHS[0],))])
