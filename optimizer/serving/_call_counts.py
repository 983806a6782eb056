"""Who calls whom in an application, found by watching its requests (section 3.4.2)."""

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
    """The calls of one request: a call depends on those whose results were read before it.

    A model that is called again after its own result was read counts as another one, a stage deeper.

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
        """Note a call; gives its number."""
        node = (model, 1 + max((depth for _, depth in self._read), default=-1))
        above = {earlier for read in self._read for earlier in self._before[read]}
        self.callers.append(tuple(read for read in self._read if read not in above))
        self._before.setdefault(node, set()).update(self._read)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def read(self, number: int) -> None:
        """Note that the result of a call was read."""
        self._read[self.nodes[number]] = None


class CallCounts:
    """The calls of many requests, and the query that they make.

    A call that depends on several others counts for each of them in part, so that rates add up.

    Attributes
    ----------
    requests : float

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
        """The models that were called."""
        return tuple(dict.fromkeys(model for model, _ in self._calls))

    @property
    def repeated(self) -> int:
        """How often, one after the other, a model was called at most."""
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
        """Give the same counts, each worth less."""
        other = CallCounts()
        other.requests = share * self.requests
        other._calls = {node: share * count for node, count in self._calls.items()}
        other._edges = {edge: share * count for edge, count in self._edges.items()}
        return other

    def name(self, node: _Node) -> str:
        """Name a node of the query: by its model, and its stage where the model has several."""
        model, depth = node
        several = sum(other == model for other, _ in self._calls) > 1
        return f"{model}#{depth + 1}" if several else model

    def query(self, name: str, profiles: Mapping[str, BatchingProfile], slo_ms: float, rate: float) -> Query:
        """Make the query of an application.

        Parameters
        ----------
        name : str
        profiles : mapping of str to BatchingProfile
            Of each model.
        slo_ms : float
        rate : float
            Requests per second.

        Raises
        ------
        ServingError
            No model was called.
        """
        calls = {
            (self.name(caller), self.name(node)): count / self._calls[caller]
            for (caller, node), count in self._edges.items()
        }
        entries = {self.name(node): count / self.requests for node, count in self._calls.items() if node[1] == 0}
        models = {self.name(node): profiles[node[0]] for node in self._calls}
        return Query(name, models, calls, slo_ms, rate, entries)

    def by_model(self, values: Mapping[str, float]) -> dict[str, list[float]]:
        """Give the values of a model's nodes, from those of the query's."""
        found: dict[str, list[float]] = {}
        for node in self._calls:
            name = self.name(node)
            if name in values:
                found.setdefault(node[0], []).append(values[name])
        return found
