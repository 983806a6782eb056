"""Input of the planner: candidates, and rates of computing and reading."""

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
    """Model with its training hyperparameters, a pair (M, phi) of Nautilus, section 2.3.

    ``frozen`` layers of ``graph`` do not train, and ``random`` ones draw random numbers. Only candidates with the same
    batch size are fused. ``slots`` is the number of tensors that the optimizer keeps for each trained parameter: 2 for
    Adam, 1 for momentum, 0 for plain SGD. ``name`` is unique in a plan.

    Raises
    ------
    InvalidArgumentError
        The name is empty, ``graph`` is not a layer graph, or a number is too small.

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
            raise InvalidArgumentError(f"name must be a non-empty string, got {name!r}")
        if not isinstance(graph, LayerGraph):
            raise InvalidArgumentError(
                f"graph of candidate {name!r} must be a LayerGraph, got {graph!r}: trace the model first"
            )
        whole("epochs", self.epochs, 1)
        whole("batch_size", self.batch_size, 1)
        whole("slots", self.slots, 0)


@dataclass(frozen=True, slots=True)
class Costs:
    """Rates of a worker, which make reading and computing comparable.

    Raises
    ------
    InvalidArgumentError
        A rate is not a positive, finite number.

    Examples
    --------
    The paper's machine misses 12,000 FLOPs per byte read.

    >>> Costs(flops_per_second=6e12, bytes_per_second=500e6).load_flops(1)
    12000
    """

    flops_per_second: float
    bytes_per_second: float

    def __post_init__(self) -> None:
        for field in ("flops_per_second", "bytes_per_second"):
            value: Any = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
                raise InvalidArgumentError(
                    f"{field} must be a positive, finite number, got {value!r}: measure it on a worker"
                )

    def load_flops(self, nbytes: int) -> int:
        """Convert the time to read ``nbytes`` into FLOPs missed: c_load of Nautilus, section 4.1."""
        return round(nbytes * self.flops_per_second / self.bytes_per_second)


def checked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Validate that there are candidates with different names."""
    candidates = tuple(candidates)
    if not candidates:
        raise InvalidArgumentError("candidates must have at least one candidate, got none")
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.name in seen:
            raise InvalidArgumentError(f"names of candidates must differ, got {candidate.name!r} twice")
        seen.add(candidate.name)
    return candidates
