"""Values of a record alone and in a batch: a network whose records see each other has no features of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.graph import Layer, LayerGraph
from udfs.handlers._protocol import UntraceableModelError
from udfs.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.handlers._protocol import TracedModel

    Tensors = Mapping[str, NDArray[np.generic]]

__all__ = ["check_records", "check_trunk", "drawn", "mixing_layer", "with_neighbours"]

# A record whose tensor changes by more, as a part of the largest number, when other records are in its batch. Sums in
# another order differ by a hundredth of it in float32; coarser types allow as many of their own steps.
_MIXED = 1e-4
_STEPS = 64

# Layers are compared as long as their tensors, of all runs, take no more bytes; the smallest ones go first.
_MOST_BYTES = 512 * 2**20
_RECORDS = 6  # two alone, four together

# Of the record among its neighbours, and of one of those, which run alone as well: of two records, at most one can hold
# what the batch is measured by, its largest number.
_PLACE = 1
_PLACES = (_PLACE, 2)

# Types of layers of which records are drawn; others are masks and the like.
_DRAWN = ("float16", "float32", "float64")

# Two records: what rounding flips in one (an argmax, a threshold) it does not flip in the other.
_SEEDS = (0, 1)


def check_records(model: TracedModel, inputs: Sequence[TensorSpec], *, integers: bool = False) -> None:
    """Refuse a network that gives a record other numbers beside other records, or other numbers each time.

    It runs on drawn records, two of them alone and in a batch of four, and compares the tensors of its layers; tensors
    of integers and booleans only with ``integers``. That takes six records' time. Raise UntraceableModelError, with the
    name of the layer, if records see each other or an operation draws random numbers; also if the network does not run.
    """
    graph = model.graph
    layers = _compared(graph)
    suspects: list[str] = []
    for seed in _SEEDS:
        random = np.random.default_rng(seed)
        alone = {name: drawn(spec, random) for name, spec in zip(graph.inputs, inputs, strict=True)}
        beside = {name: with_neighbours(record) for name, record in alone.items()}
        try:
            layer = mixing_layer(graph, model.run, beside, layers, integers=integers)
        except (RuntimeError, TypeError, ValueError) as error:
            reason = next(iter(str(error).splitlines()), "")
            raise UntraceableModelError(
                f"the network has been traced but does not run: {type(error).__name__}: {reason}; call it on two "
                "records in its own framework to see why (tensors that are not registered keep their type and device)"
            ) from error
        if layer is None:
            return
        layer_again = _first_differing(graph, model.run(alone, layers), model.run(alone, layers), integers=integers)
        if layer_again is not None:
            raise UntraceableModelError(
                f"layer {layer_again!r} ({graph[layer_again].op}) gives other numbers each time that it runs: pass "
                "training=self.training to a functional dropout, and draw no random numbers in forward"
            )
        suspects.append(layer)
    raise UntraceableModelError(
        f"layer {suspects[0]!r} ({graph[suspects[0]].op}) mixes the records of a batch, so that a row's features would "
        "depend on the rows beside it: compute means, norms and softmax over axes other than the first (nn.BatchNorm "
        "by its running statistics), and give recurrent and attention layers batch_first=True"
    )


def check_trunk(graph: LayerGraph, model: TracedModel, inputs: Mapping[str, TensorSpec], feeds: Sequence[str]) -> None:
    """Refuse frozen layers as :func:`check_records` does a network; layers that passed once in this process pass.

    Integers are compared too, because a position in the batch, such as ``torch.arange`` of its size, is not a value of
    the record.

    Layers above those that passed are checked on drawn tensors of these, not of the inputs. The expressions of
    ``graph`` are those of the feeds, whose values are to be kept for each record; ``inputs`` are the tensors that
    ``model`` takes.

    Raises
    ------
    UntraceableModelError
        See :func:`check_records`.
    """
    expressions = {graph.expression(name) for name in feeds}
    if expressions <= _passed:
        return
    trunk = _Trunk(_unchecked(graph, model.graph, feeds) or model.graph.subgraph(feeds), model.run)
    specs = [inputs.get(name) or _spec(model.graph[name]) for name in trunk.graph.inputs]
    check_records(trunk, specs, integers=True)  # type: ignore[arg-type] # all that it asks for
    _passed.update(graph.expression(name) for name in _compared(trunk.graph))


def _unchecked(graph: LayerGraph, trusted: LayerGraph, feeds: Sequence[str]) -> LayerGraph | None:
    """Return the layers above those that passed, which are its inputs; None where a record of these cannot be drawn."""
    passed = [name for name in graph.names if graph.expression(name) in _passed]
    wanted = [name for name in feeds if name not in passed]
    part = trusted.part([*passed, *trusted.inputs], wanted)
    if not all(trusted[name].dtype in _DRAWN for name in part.inputs):
        return None
    below = [Layer(name, "input", (), trusted[name].output_shape, trusted[name].dtype) for name in part.inputs]
    return LayerGraph([*below, *(trusted[name] for name in part.layers)], wanted)


def _spec(layer: Layer) -> TensorSpec:
    return TensorSpec(layer.output_shape, layer.dtype)


@dataclass(frozen=True)
class _Trunk:
    graph: LayerGraph
    run: Callable[[Tensors, Sequence[str]], Tensors]


_passed: set[str] = set()


def with_neighbours(record: NDArray[np.generic]) -> NDArray[np.generic]:
    """Put a record among three others, whose mean, maximum and order are other ones.

    The record of shape ``(1, ...)`` is the second of four: neither the first nor the last, nor where turning the batch
    round leaves it. Integers stay within those of the record.

    Examples
    --------
    >>> with_neighbours(np.array([[1.0, 2.0]])).tolist()
    [[-5.0, -2.0], [1.0, 2.0], [0.125, 0.5], [0.0, -1.0]]
    """
    if not np.issubdtype(record.dtype, np.floating):
        low, high = record.min(initial=1), record.max(initial=0)
        others = [low + high - record, np.full_like(record, high), np.full_like(record, low)]
    else:
        turned = np.flip(record, -1) if record.ndim > 1 else record
        # Of larger numbers, and of smaller, a maximum or a mean is another; no norm takes back what turned ones add.
        others = [1 - 3 * turned, np.square(record) / 8, 1 - record]
    others.insert(_PLACE, record)
    return np.concatenate(others).astype(record.dtype)


def mixing_layer(
    graph: LayerGraph,
    run: Callable[[Tensors, Sequence[str]], Tensors],
    batch: Tensors,
    layers: Sequence[str],
    *,
    integers: bool = False,
) -> str | None:
    """Find the lowest layer that gives a record other numbers alone than in a batch.

    ``run`` is a function of the inputs and the requested layers that returns the tensors of these layers; ``batch`` has
    by input four records, as :func:`with_neighbours` puts them together. Tensors with non-finite values are skipped;
    without ``integers``, tensors of integers and booleans too.
    """
    together = run(batch, layers)
    for place in _PLACES:
        row = slice(place, place + 1)
        alone = run({name: records[row] for name, records in batch.items()}, layers)
        beside = {name: tensor[row] for name, tensor in together.items()}
        layer = _first_differing(graph, alone, beside, integers=integers)
        if layer is not None:
            return layer
    return None


def _first_differing(graph: LayerGraph, alone: Tensors, other_run: Tensors, *, integers: bool) -> str | None:
    largest = {name: _largest(tensor) for name, tensor in alone.items()}
    coarsest = max((_step(tensor) for tensor in alone.values()), default=0.0)
    for name in (name for name in graph.names if name in alone):
        single, other = alone[name], other_run[name]
        if not np.issubdtype(single.dtype, np.floating):
            if integers and not np.array_equal(single, other):
                return name
            continue
        if not np.isfinite(single).all():
            continue
        # A difference of two large numbers has the rounding of those.
        scale = max(largest[name], *(largest.get(below, 0.0) for below in graph[name].inputs), 0.0)
        bound = max(_MIXED, _STEPS * coarsest) * scale
        if not np.allclose(other.astype(np.float64), single.astype(np.float64), rtol=0.0, atol=bound):
            return name
    return None


def _compared(graph: LayerGraph) -> list[str]:
    """List the outputs and as many other layers as memory allows, in the order of the graph."""
    chosen = set(graph.outputs)
    total = sum(graph[name].activation_bytes for name in chosen)
    others: Iterable[str] = (name for name in graph.names if name not in chosen and name not in graph.inputs)
    for name in sorted(others, key=lambda name: graph[name].activation_bytes):
        total += graph[name].activation_bytes
        if total * _RECORDS > _MOST_BYTES:
            break
        chosen.add(name)
    return [name for name in graph.names if name in chosen]


def drawn(spec: TensorSpec, random: np.random.Generator) -> NDArray[np.generic]:
    """Draw a record: pixels about as preprocessing leaves them, or zeros and ones of which the first is 1."""
    shape = (1, *spec.shape)
    if np.issubdtype(spec.dtype, np.floating):
        return (random.standard_normal(shape) / 2 + 0.4).astype(spec.dtype)
    integers = random.integers(0, 2, shape).astype(spec.dtype)
    integers.reshape(-1)[:1] = 1
    return integers


def _largest(tensor: NDArray[np.generic]) -> float:
    if not np.issubdtype(tensor.dtype, np.floating):
        return 0.0
    finite = np.abs(tensor[np.isfinite(tensor)])
    return float(finite.max(initial=0.0))


def _step(tensor: NDArray[np.generic]) -> float:
    """Return the relative distance of two neighbouring numbers of a tensor's type."""
    kind: Any = tensor.dtype
    return float(np.finfo(kind).eps) if np.issubdtype(kind, np.floating) else 0.0
