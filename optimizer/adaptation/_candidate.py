"""What the planner is asked: candidates, and what computing and reading cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.graph import LayerGraph

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Candidate", "Costs", "checked"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model with its training hyperparameters: a pair (M, phi) of Nautilus, section 2.3.

    Parameters
    ----------
    name : str
        Unique among the candidates of a plan.
    graph : LayerGraph
        The model; ``frozen`` tells the layers that training leaves alone, ``random`` those that draw.
    epochs : int
        Passes over the training records.
    batch_size : int
        Records a step. Only candidates of one batch size are fused.
    slots : int
        Tensors that the optimizer keeps for each trained parameter: 2 for Adam, 1 for momentum, 0 for plain SGD.

    Raises
    ------
    InvalidArgumentError
        An empty name, no layer graph, a number below its least.

    Examples
    --------
    >>> from optimizer.graph import Layer
    >>> head = Layer("head", "fc", ("x",), (2,), flops=40, param_bytes=80, frozen=False)
    >>> Candidate("plain", LayerGraph([Layer("x", "input", (), (10,)), head], ["head"]), epochs=5, batch_size=16).slots
    2
    """

    name: str
    graph: LayerGraph
    epochs: int
    batch_size: int
    slots: int = 2

    def __post_init__(self) -> None:
        name: Any = self.name
        graph: Any = self.graph
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"name={name!r}: a candidate's name is a string that is not empty")
        if not isinstance(graph, LayerGraph):
            raise InvalidArgumentError(
                f"candidate {name!r}: graph={graph!r} is not a LayerGraph; trace the model first"
            )
        whole(f"candidate {name!r}: epochs", self.epochs, 1)
        whole(f"candidate {name!r}: batch_size", self.batch_size, 1)
        whole(f"candidate {name!r}: slots", self.slots, 0)


@dataclass(frozen=True, slots=True)
class Costs:
    """Rates of the machine, which make reading and computing comparable.

    Parameters
    ----------
    flops_per_second : float
        FLOPs that a worker computes a second.
    bytes_per_second : float
        Bytes of stored layer outputs that it reads a second.

    Raises
    ------
    InvalidArgumentError
        A rate that is not a positive, finite number.

    Examples
    --------
    The paper's machine: a byte read is 12,000 FLOPs missed.

    >>> Costs(flops_per_second=6e12, bytes_per_second=500e6).load_flops(1)
    12000
    """

    flops_per_second: float
    bytes_per_second: float

    def __post_init__(self) -> None:
        for field in ("flops_per_second", "bytes_per_second"):
            value: Any = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
                raise InvalidArgumentError(f"{field}={value!r}: a positive, finite number, measured on the machine")

    def load_flops(self, nbytes: int) -> int:
        """Convert the time to read ``nbytes`` into FLOPs missed: c_load of Nautilus, section 4.1."""
        return round(nbytes * self.flops_per_second / self.bytes_per_second)


def checked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Check that there are candidates, and no two of one name."""
    candidates = tuple(candidates)
    if not candidates:
        raise InvalidArgumentError("no candidates: give at least one")
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.name in seen:
            raise InvalidArgumentError(f"two candidates are named {candidate.name!r}: rename one, plans go by name")
        seen.add(candidate.name)
    return candidates
