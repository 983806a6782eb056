"""Calls between the models of an application, counted from its requests (section 3.4.2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optimizer.serving._query import Query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.serving._profile import BatchingProfile

__all__ = ["CallCounts", "CallTrace"]

_Node = tuple[str, int]


@dataclass(slots=True)
class CallTrace:
    """Calls of one request. A call depends on the calls whose results were read before it.

    A model that is called again after its own result was read counts as another node, one stage deeper.

    Examples
    --------
    >>> trace = CallTrace()
    >>> detected = trace.call("detector")
    >>> trace.read(detected)
    >>> [trace.call("cars") for _ in range(2)]
    [1, 2]
    >>> trace.nodes
    [('detector', 0), ('cars', 1), ('cars', 1)]
    """

    nodes: list[_Node] = field(default_factory=list)
    callers: list[tuple[_Node, ...]] = field(default_factory=list)
    _read: dict[_Node, None] = field(default_factory=dict)
    _before: dict[_Node, set[_Node]] = field(default_factory=dict)

    def call(self, model: str) -> int:
        """Record a call; return its number."""
        node = (model, 1 + max((depth for _, depth in self._read), default=-1))
        above = {earlier for read in self._read for earlier in self._before[read]}
        self.callers.append(tuple(read for read in self._read if read not in above))
        self._before.setdefault(node, set()).update(self._read)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def read(self, number: int) -> None:
        """Record that the result of a call was read."""
        self._read[self.nodes[number]] = None


class CallCounts:
    """Calls of many requests, and the query that they form.

    A call that depends on several others counts for each of them in part, so that rates add up.

    Examples
    --------
    >>> from optimizer.serving import BatchingProfile
    >>> counts = CallCounts()
    >>> for cars in (1, 4):
    ...     trace = CallTrace()
    ...     trace.read(trace.call("detector"))
    ...     for _ in range(cars):
    ...         number = trace.call("cars")
    ...     counts.add(trace)
    >>> profile = BatchingProfile.from_line(2, 8, 32)
    >>> query = counts.query("traffic", {"detector": profile, "cars": profile}, slo_ms=400, rate=10)
    >>> query.calls, query.rates["cars"]
    ({('detector', 'cars'): 2.5}, 25.0)
    """

    def __init__(self) -> None:
        self.requests = 0.0
        self._calls: dict[_Node, float] = {}
        self._edges: dict[tuple[_Node, _Node], float] = {}

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the called models."""
        return tuple(dict.fromkeys(model for model, _ in self._calls))

    @property
    def repeated(self) -> int:
        """Largest number of calls of a model in a row."""
        return max(Counter(model for model, _ in self._calls).values(), default=0)

    def add(self, trace: CallTrace) -> None:
        """Count a request."""
        self.requests += 1
        for node, callers in zip(trace.nodes, trace.callers, strict=True):
            self._calls[node] = self._calls.get(node, 0.0) + 1
            for caller in callers:
                edge = caller, node
                self._edges[edge] = self._edges.get(edge, 0.0) + 1 / len(callers)

    def faded(self, share: float) -> CallCounts:
        """Return the same counts with a smaller weight."""
        other = CallCounts()
        other.requests = share * self.requests
        other._calls = {node: share * count for node, count in self._calls.items()}
        other._edges = {edge: share * count for edge, count in self._edges.items()}
        return other

    def name(self, node: _Node) -> str:
        """Return the name of a node: its model, with the stage if the model has several."""
        model, depth = node
        several = sum(other == model for other, _ in self._calls) > 1
        return f"{model}#{depth + 1}" if several else model

    def query(self, name: str, profiles: Mapping[str, BatchingProfile], slo_ms: float, rate: float) -> Query:
        """Return the query of an application.

        Raise ServingError if no model was called.
        """
        calls = {
            (self.name(caller), self.name(node)): count / self._calls[caller]
            for (caller, node), count in self._edges.items()
        }
        entries = {self.name(node): count / self.requests for node, count in self._calls.items() if node[1] == 0}
        models = {self.name(node): profiles[node[0]] for node in self._calls}
        return Query(name, models, calls, slo_ms, rate, entries)

    def by_model(self, values: Mapping[str, float]) -> dict[str, list[float]]:
        """Group values of the query's nodes by model."""
        grouped: dict[str, list[float]] = {}
        for node in self._calls:
            name = self.name(node)
            if name in values:
                grouped.setdefault(node[0], []).append(values[name])
        return grouped
