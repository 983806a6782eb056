"""The directed acyclic graph of layers that every planner works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from optimizer.errors import GraphError, UnknownLayerError
from optimizer.graph import _cut, _explain
from optimizer.graph._expression import expressions, pinned
from optimizer.graph._layer import INPUT, Layer
from optimizer.graph._order import topological

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["LayerGraph"]


@dataclass(frozen=True, init=False, repr=False)
class LayerGraph:
    """A network as an immutable DAG of layers (Nautilus, definition 2.2; Vista, definition 3.4, with branches).

    Indexed by name, it iterates over its layers in a deterministic topological order: the given order where that is
    topological. Every shape, cost and size is for one record. Methods that take names accept a single name too.

    Parameters
    ----------
    layers : iterable of Layer
        In any order.
    outputs : iterable of str
        The layers whose tensors the network returns; at least one, each once.

    Raises
    ------
    GraphError
        Duplicate names, an input that no layer yields, a cycle, no or repeated or unknown outputs.

    Examples
    --------
    A residual block: the cut at ``conv`` keeps the input alive for the skip connection.

    >>> graph = LayerGraph(
    ...     [
    ...         Layer("x", "input", output_shape=(8, 4, 4)),
    ...         Layer("conv", "conv2d", ("x",), (8, 4, 4), flops=18432, param_bytes=2304, fingerprint="c0ffee"),
    ...         Layer("sum", "add", ("conv", "x"), (8, 4, 4), flops=128),
    ...     ],
    ...     outputs=["sum"],
    ... )
    >>> graph.cut("conv").live
    ('x', 'conv')
    >>> graph.part(have=("x", "conv"), want="sum")
    Part(inputs=('x', 'conv'), outputs=('sum',), layers=('sum',), flops=128)
    >>> print(graph.explain())
    layer     op      inputs   shape   FLOPs   params  activations
    --------  ------  -------  -----  ------  -------  -----------
    x         input            8x4x4       0      0 B        512 B
    conv      conv2d  x        8x4x4  18.4 K  2.2 KiB        512 B
    sum       add     conv, x  8x4x4     128      0 B        512 B
    --------  ------  -------  -----  ------  -------  -----------
    3 layers                          18.6 K  2.2 KiB      1.5 KiB
    outputs: sum; per record; a multiply-add is 2 FLOPs
    """

    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]

    def __init__(self, layers: Iterable[Layer], outputs: Iterable[str]) -> None:
        ordered = topological(tuple(layers))
        names = {layer.name for layer in ordered}
        results = _listed(outputs)
        unknown = [name for name in results if name not in names]
        if unknown:
            reason = UnknownLayerError(unknown[0], (layer.name for layer in ordered))
            raise GraphError(f"unknown outputs {', '.join(unknown)}: {reason}") from reason
        if not results or len(set(results)) < len(results):
            raise GraphError(f"a graph needs outputs, each once; got {results}")
        object.__setattr__(self, "layers", ordered)
        object.__setattr__(self, "outputs", results)

    def __repr__(self) -> str:
        return f"LayerGraph({len(self)} layers, inputs={self.inputs}, outputs={self.outputs})"

    def __getitem__(self, name: str) -> Layer:
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownLayerError(name, self.names) from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    @cached_property
    def _by_name(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def _consumers(self) -> dict[str, tuple[str, ...]]:
        # A dict as an ordered set: add(x, x) consumes x once.
        readers_of: dict[str, dict[str, None]] = {layer.name: {} for layer in self.layers}
        for layer in self.layers:
            for source in layer.inputs:
                readers_of[source][layer.name] = None
        return {name: tuple(readers) for name, readers in readers_of.items()}

    @cached_property
    def _expressions(self) -> dict[str, str]:
        return expressions(self.layers)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all layers, in topological order."""
        return tuple(self._by_name)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the graph inputs (layers of op ``"input"``), in topological order."""
        return tuple(layer.name for layer in self.layers if layer.op == INPUT)

    def resolve(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the names, each once and in their order, after checking that the graph has them.

        Raises
        ------
        UnknownLayerError
            A name that the graph does not have.
        """
        return tuple(dict.fromkeys(self[name].name for name in _listed(names)))

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the names of the layers that read ``name``, in topological order, each once."""
        return self._consumers[self[name].name]

    def ancestors(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the layers that ``names`` depend on, themselves included, in topological order."""
        return self._closure(names, {layer.name: layer.inputs for layer in self.layers})

    def descendants(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the layers that depend on ``names``, themselves included, in topological order."""
        return self._closure(names, self._consumers)

    def _closure(self, names: Iterable[str], neighbours: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        stack = list(self.resolve(names))
        reached: set[str] = set(stack)
        while stack:
            fresh = set(neighbours[stack.pop()]) - reached
            reached |= fresh
            stack.extend(fresh)
        return tuple(name for name in self.names if name in reached)

    def flops(self, names: Iterable[str] | None = None) -> int:
        """Count the FLOPs of the forward pass of ``names`` (default: all) per record; a multiply-add counts as 2."""
        return sum(self[name].flops for name in (self.names if names is None else self.resolve(names)))

    def param_bytes(self, names: Iterable[str] | None = None) -> int:
        """Count the bytes of the parameters of ``names`` (default: all)."""
        return sum(self[name].param_bytes for name in (self.names if names is None else self.resolve(names)))

    def subgraph(self, outputs: Iterable[str]) -> LayerGraph:
        """Return the subgraph of the layers that ``outputs`` need, with these outputs and unchanged expressions."""
        outputs = self.resolve(outputs)
        needed = set(self.ancestors(outputs))
        return LayerGraph((layer for layer in pinned(self.layers) if layer.name in needed), outputs)

    def above(self, have: Iterable[str]) -> LayerGraph:
        """Make the network that begins at materialised tensors, which become its inputs; the outputs stay.

        The graph's own inputs give the graph itself. Raise GraphError if an output takes a graph input that is not in
        ``have``.
        """
        have = self.resolve(have)
        if set(have) == set(self.inputs):
            return self
        part = self.part(have, self.outputs)
        begin = [Layer(name, INPUT, output_shape=self[name].output_shape, dtype=self[name].dtype) for name in have]
        return LayerGraph([*begin, *(self[name] for name in part.layers)], self.outputs)

    def expression(self, name: str) -> str:
        """Hash all that ``name`` computes, from the graph inputs on (Nautilus, definitions 4.1 and 4.3).

        It covers the layer's op, fingerprint, shape, dtype and window and the expressions of its inputs in order, so
        two layers, of one graph or of two, are identical exactly if their expressions are. Graph inputs hash by shape
        and dtype; where several inputs of one graph are alike in both, by fingerprint or else by name too.

        Returns
        -------
        str
            64 hexadecimal digits, the same in every process: fit for the key of a materialised view.
        """
        return self._expressions[self[name].name]

    def cut(self, at: Iterable[str], towards: Iterable[str] | None = None) -> _cut.Cut:
        """Cut the graph above ``at`` and list the tensors that cross on the way to ``towards``.

        The live tensors are the fewest with which the layers above run without any layer below. Skip connections around
        ``at`` are included, back to a graph input if needed; a layer of ``at`` that nothing above reads is not. By
        default the targets are the graph's outputs.

        Raises
        ------
        UnknownLayerError
            A name that the graph does not have.
        GraphError
            No layer to cut at, or no target.
        """
        at = self.resolve(at)
        targets = self.outputs if towards is None else self.resolve(towards)
        if not at or not targets:
            raise GraphError(f"a cut needs layers to cut at and target layers, got at={at}, towards={targets}")
        return _cut.cut(self._by_name, at, targets, below=self.ancestors(at), needed=self.ancestors(targets))

    def part(self, have: Iterable[str], want: Iterable[str]) -> _cut.Part:
        """Find the fewest layers that compute ``want`` from ``have``: partial inference i -> j (Vista, definition 3.7).

        A graph input counts only if it is in ``have``. Raise GraphError, with its name, if some of ``want`` takes one
        that is not.
        """
        return _cut.part(self._by_name, self.resolve(have), self.resolve(want))

    def explain(self) -> str:
        """Tabulate the layers: name, op, inputs, shape, FLOPs, parameters, activations, and the totals."""
        return _explain.explain(self.layers, self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Turn the graph into JSON-able data."""
        return {"layers": [layer.to_dict() for layer in self.layers], "outputs": list(self.outputs)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LayerGraph:
        """Restore the graph that :meth:`to_dict` wrote, also after a trip through JSON; else GraphError."""
        if not {"layers", "outputs"} <= data.keys():
            raise GraphError(f"data must have 'layers' and 'outputs', got {', '.join(data) or 'nothing'}")
        return cls((Layer.from_dict(layer) for layer in data["layers"]), data["outputs"])


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    # A string would iterate over its letters.
    return (names,) if isinstance(names, str) else tuple(names)
