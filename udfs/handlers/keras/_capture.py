"""A Keras model opened into steps: each one call of one operation on the values of earlier steps."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras

from udfs.handlers._outputs import keyed_outputs
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.keras._call_graph import in_order, inference, is_functional, opened, symbols_of, unnumbered
from udfs.handlers.keras._modes import is_frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from udfs.tensors import TensorSpec

__all__ = ["Capture", "Ref", "Step", "capture", "output_structure"]

_WAYS_OUT = (
    "ways out: write the model with keras.layers and keras.ops (not tf.* functions), choose by keras.ops.where or "
    "keras.ops.cond instead of a Python branch on values, or build the part in question as a functional model"
)


@dataclass(frozen=True, slots=True)
class Ref:
    """Stands for a value in the arguments of a step: an index into the values of a run."""

    index: int


@dataclass(frozen=True, slots=True)
class Step:
    """Call of an operation.

    ``operation`` is a layer or a function of ``keras.ops``, and ``path`` has the names of the models around it and its
    own, with slashes between. The arguments have a :class:`Ref` for each tensor; ``reads`` and ``writes`` are indices
    of the values in the arguments, in their order, and of the values returned. A ``frozen`` step is a frozen layer, or
    within one: it stays in inference mode while others train.
    """

    operation: Any
    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    frozen: bool = False

    def __call__(self, values: Mapping[int, Any], *, training: bool = False) -> list[Any]:
        """Call the operation, by default in inference mode; returns the values for ``writes``."""

        def fed(value: Any) -> Any:
            return values[value.index] if isinstance(value, Ref) else value

        args, kwargs = keras.tree.map_structure(fed, (self.args, self.kwargs))
        if getattr(self.operation, "_call_has_training_arg", False):
            kwargs["training"] = training and not self.frozen
        flat: list[Any] = keras.tree.flatten(self.operation(*args, **kwargs))
        return flat


@dataclass(slots=True)
class Capture:
    """A model as steps, in an order in which they can run.

    ``symbols`` specify each value by shape (the batch axis is ``None``) and dtype. ``keys`` has values by the keys
    under which the model returns them, and is empty where it returns one tensor; ``returned`` has, for a path of a
    layer or of a model within, the value of its first call, where that is one.
    """

    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    keys: dict[str | int, int] = field(default_factory=dict)
    symbols: list[Any] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    returned: dict[str, int] = field(default_factory=dict)

    def value(self, symbol: Any) -> int:
        """Add a value."""
        self.symbols.append(symbol)
        return len(self.symbols) - 1


def capture(model: Any, inputs: Sequence[TensorSpec], *, training: bool = False) -> Capture:
    """Open a built model; functional and sequential models within it, and layers made of layers, are opened too.

    A model of a class of its own is called on symbolic inputs, which records the layers and the ``keras.ops`` that its
    ``call`` uses. A layer whose ``call`` does not take symbols stays whole. With ``training`` the steps are to train as
    well: then a layer made of layers is opened only if it is frozen, for its Python may take another way in training.
    Raise UntraceableModelError if the model is not built, takes other inputs, or its Python does not take symbols.
    """
    if not isinstance(model, keras.Layer):
        raise UntraceableModelError(f"expected a keras.Model, got {type(model).__name__}")
    if not model.built:
        raise UntraceableModelError(
            f"{model.name} is not built, it has no weights yet: call it once on data, or give it a keras.Input"
        )
    captured = Capture()
    with _nodes_restored(model):
        symbols, flat, returned = _opened_root(model, inputs)
        _check(symbols, inputs)
        known = {id(symbol): captured.value(symbol) for symbol in symbols}
        captured.inputs = list(known.values())
        captured.outputs = _walk(captured, flat, known, "", training=training)
        values = dict(zip(map(id, flat), captured.outputs, strict=True))
        keyed = keyed_outputs(returned, keras.KerasTensor)
        captured.keys = {key: values[id(symbol)] for key, symbol in keyed.items()}
    return captured


def _opened_root(model: Any, inputs: Sequence[TensorSpec]) -> tuple[list[Any], list[Any], Any]:
    """List the symbols of the inputs and of the outputs, and give these as the model returns them."""
    if is_functional(model):
        return list(model.inputs), list(model.outputs), output_structure(model)
    fresh = [keras.Input(spec.shape, dtype=spec.dtype) for spec in inputs]
    nested: Exception | None = None
    # Keras's habit is one argument, a list where there are several tensors; a signature of several is common, too.
    for args in ([fresh], fresh) if len(fresh) > 1 else (fresh,):
        try:
            returned = model.call(*args, **inference(model))
            return fresh, symbols_of(returned), returned
        except Exception as error:  # noqa: BLE001 - the user's own Python may raise anything
            nested = nested or error
    reason = str(nested).partition("\n")[0]
    raise UntraceableModelError(
        f"{type(model).__name__}.call does not take symbolic inputs; {_WAYS_OUT} ({type(nested).__name__}: {reason})"
    ) from nested


def output_structure(model: Any) -> Any:
    """Return the symbolic outputs of a functional or sequential model as its call returns them."""
    if isinstance(model, keras.Sequential):
        return model.outputs[0]
    return getattr(model, "_outputs_struct", model.outputs)


def _walk(
    captured: Capture,
    outputs: Sequence[Any],
    known: dict[int, int],
    prefix: str,
    *,
    training: bool,
    frozen: bool = False,
) -> list[int]:
    """Add the steps that lead to ``outputs``; ``known`` has the values of the symbols there are."""
    for node in in_order(outputs, known):
        operation = node.operation
        # As it trains a model is built once a candidate, and its layers are to have the same names each time.
        path = f"{prefix}{unnumbered(operation) if training else operation.name}"
        if isinstance(operation, keras.layers.InputLayer):
            raise UntraceableModelError(f"{path} is an input that the model does not list among its inputs")
        if node.arguments.kwargs.get("training"):
            raise UntraceableModelError(f"layer {path!r} is called with training=True: what it gives is random")

        def ref(symbol: Any) -> Any:
            return Ref(known[id(symbol)]) if isinstance(symbol, keras.KerasTensor) else symbol

        args, kwargs = keras.tree.map_structure(ref, (node.arguments.args, node.arguments.kwargs))
        reads = tuple(known[id(symbol)] for symbol in node.arguments.keras_tensors)
        still = frozen or (isinstance(operation, keras.Layer) and is_frozen(operation))
        inside = opened(node, composite=still or not training)
        if inside is None:
            values = [captured.value(symbol) for symbol in node.outputs]
            captured.steps.append(Step(operation, path, tuple(args), dict(kwargs), reads, tuple(values), still))
        else:
            symbols, returned = inside
            fed = {id(symbol): value for symbol, value in zip(symbols, reads, strict=True)}
            values = _walk(captured, returned, fed, f"{path}/", training=training, frozen=still)
        if len(values) == 1:
            captured.returned.setdefault(path, values[0])
        known.update({id(symbol): value for symbol, value in zip(node.outputs, values, strict=True)})
    return [known[id(symbol)] for symbol in outputs]


def _check(symbols: Sequence[Any], inputs: Sequence[TensorSpec]) -> None:
    if len(symbols) != len(inputs):
        raise UntraceableModelError(f"the model takes {len(symbols)} inputs as arguments, {len(inputs)} were described")
    for symbol, spec in zip(symbols, inputs, strict=True):
        if symbol.shape[0] is not None:
            raise UntraceableModelError(
                f"input {symbol.name!r} has the batch size {symbol.shape[0]} fixed: leave batch_size out of keras.Input"
            )
        shape = tuple(symbol.shape[1:])
        fits = len(shape) == len(spec.shape) and all(a in (None, b) for a, b in zip(shape, spec.shape, strict=False))
        if not fits or symbol.dtype != spec.dtype:
            raise UntraceableModelError(
                f"input {symbol.name!r} is of another shape or type: the model takes {shape} of {symbol.dtype}, "
                f"described is {spec.shape} of {spec.dtype}"
            )


@contextlib.contextmanager
def _nodes_restored(model: Any) -> Iterator[None]:
    """Symbolic calls leave nodes behind in the layers that are called; take those away again."""
    layers = [model, *model._flatten_layers(include_self=False)]
    before = [(lay, len(lay._inbound_nodes), len(lay._outbound_nodes)) for lay in layers]
    try:
        yield
    finally:
        for layer, inbound, outbound in before:
            del layer._inbound_nodes[inbound:]
            del layer._outbound_nodes[outbound:]
