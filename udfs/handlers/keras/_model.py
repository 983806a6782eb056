"""The Keras handler: open a functional, sequential or own model, and run the part between two cuts in TensorFlow."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from udfs.handlers._outputs import output_at
from udfs.handlers.keras._import import load_keras

load_keras()

import numpy as np  # noqa: E402 - the lines above choose what TensorFlow says and does on import
import tensorflow as tf  # noqa: E402

from optimizer.errors import GraphError, UnknownLayerError  # noqa: E402
from udfs.handlers.keras._capture import Capture, capture  # noqa: E402
from udfs.handlers.keras._graph import layer_graph  # noqa: E402
from udfs.handlers.keras._layouts import layouts  # noqa: E402
from udfs.handlers.keras._measure import BATCHES, measure  # noqa: E402
from udfs.handlers.keras._modes import unfused  # noqa: E402
from udfs.handlers.keras._names import value_names  # noqa: E402
from udfs.handlers.keras._pickling import known_paths  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph
    from udfs.handlers._layer_layout import LayerLayout
    from udfs.handlers.keras._capture import Step
    from udfs.tensors import TensorSpec

__all__ = ["KerasModel", "open_model"]


class KerasModel:
    """A Keras model opened into layers.

    The graph itself (shapes, FLOPs, fingerprints) is made when it is first asked for: a Spark worker that only runs a
    part never pays for it. Each part is compiled once into a function of TensorFlow, for any number of records.
    ``captured`` shares the weights with the user's model; ``device`` is TensorFlow's name of where to run.
    """

    def __init__(self, captured: Capture, inputs: Sequence[TensorSpec], device: str = "CPU:0") -> None:
        self._captured = captured
        self._inputs = tuple(inputs)
        self._device = device
        self._names = value_names(captured)
        self._values = {name: index for index, name in enumerate(self._names)}
        self._parts: dict[tuple[tuple[int, ...], tuple[int, ...]], Callable[..., list[Any]]] = {}

    def prepare(self, threads: int) -> KerasModel:
        """Make ready to run many batches; see :meth:`udfs.handlers.TracedModel.prepare`.

        TensorFlow takes its numbers of threads when its first operation runs, which building a model does. So this
        sets them where nothing ran yet, and leaves them otherwise; in Spark's workers they come from the environment
        (see :func:`udfs.handlers.keras.load_keras`).
        """
        with contextlib.suppress(RuntimeError):  # TensorFlow is initialised
            tf.config.threading.set_intra_op_parallelism_threads(threads)
        return self

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the layers, and of the models within, that give one tensor, in the order in which they give it."""
        return tuple(self._captured.returned)

    @property
    def output_keys(self) -> tuple[str | int, ...]:
        """Keys of the outputs; see :attr:`udfs.handlers.TracedModel.output_keys`.

        Outputs that a model returns in a list have the names of their layers, as they have for Keras's ``fit``.
        """
        return tuple(name if isinstance(key, int) else key for key, name in self._outputs.items())

    def output_layer(self, key: str | int) -> str:
        """Find the layer of an output by its key or its index; see :meth:`udfs.handlers.TracedModel.output_layer`."""
        named = dict(zip(self.output_keys, self._outputs.values(), strict=True))
        return output_at(key, self._outputs if isinstance(key, int) else named)

    @cached_property
    def _outputs(self) -> dict[str | int, str]:
        named = {key: self._names[value] for key, value in self._captured.keys.items()}
        return {key: name for key, name in named.items() if name in self.graph.outputs}

    @cached_property
    def graph(self) -> LayerGraph:
        """The layers, with shapes, FLOPs, bytes and fingerprints."""
        return layer_graph(self._captured, [measure(self._captured, self._inputs, batch) for batch in BATCHES])

    def layout(self, name: str) -> LayerLayout | None:
        """Find the layout of a layer's output; see :func:`udfs.handlers.layer_layout`."""
        return self._layouts[self._index(name)]

    @cached_property
    def _layouts(self) -> list[LayerLayout | None]:
        return layouts(self._captured, measure(self._captured, self._inputs, BATCHES[0]))

    def layer(self, name: str) -> str:
        """Find the graph's layer for a name or a path; see :meth:`udfs.handlers.TracedModel.layer`."""
        layer = name
        if name not in self.graph and name in self._captured.returned:
            layer = self._names[self._captured.returned[name]]
        if layer not in self.graph:
            raise UnknownLayerError(name, self.graph.names)
        return layer

    def activation_of(self, name: str) -> str | None:
        """Name the activation that a layer applies itself, as ``Dense(2, activation="softmax")``; ``None`` without."""
        maker = self._maker.get(self._index(name))
        activation = None if maker is None else getattr(maker.operation, "activation", None)
        return None if activation is None else str(getattr(activation, "__name__", type(activation).__name__))

    def trunk(self, feeds: Sequence[str]) -> list[Step]:
        """List the steps that compute some layers from the model's inputs."""
        inputs = dict.fromkeys(self._captured.inputs)
        return self._steps(inputs.keys(), self._needed(inputs, [self._index(name) for name in feeds]))

    def branch(self, feeds: Sequence[str]) -> Callable[..., list[Any]]:
        """Make a function from the tensors of some layers, and whether it trains, to the model's outputs.

        Raise GraphError, with its name, if an input of the model is needed too.
        """
        reads = [self._index(name) for name in feeds]
        outputs = self._captured.outputs
        steps = self._steps(reads, self._needed(dict.fromkeys(reads), outputs))

        def run(tensors: Sequence[Any], *, training: bool) -> list[Any]:
            return _ran(steps, dict(zip(reads, tensors, strict=True)), outputs, training=training)

        return run

    def run(self, feeds: Mapping[str, NDArray[np.generic]], want: Sequence[str]) -> dict[str, NDArray[np.generic]]:
        """Compute ``want`` from ``feeds``; see :meth:`udfs.handlers.TracedModel.run`.

        The arrays returned may be read-only: they are TensorFlow's own memory.

        Examples
        --------
        >>> import keras
        >>> import numpy as np
        >>> from udfs.handlers import TensorSpec
        >>> from udfs.handlers.keras import FRAMEWORK
        >>> net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a"), keras.layers.ReLU(name="b")])
        >>> traced = FRAMEWORK.trace(net, [TensorSpec((3,))])
        >>> below = traced.run({"input_1": np.ones((5, 3), np.float32)}, ["a"])
        >>> traced.run(below, ["b"])["b"].shape
        (5, 2)
        """
        fed = {self._index(name): array for name, array in feeds.items()}
        wanted = [self._index(name) for name in want]
        needed = self._needed(fed, wanted)
        computed = list(dict.fromkeys(index for index in wanted if index not in fed))
        reads = sorted(needed & fed.keys())
        values: dict[int, Any] = dict(fed)
        if computed:
            part = self._part(reads, computed, needed)
            with tf.device(self._device), unfused():
                tensors = part(*(tf.convert_to_tensor(fed[index]) for index in reads))
            values.update(zip(computed, map(_array, tensors), strict=True))
        return {name: values[index] for name, index in zip(want, wanted, strict=True)}

    def _index(self, name: str) -> int:
        try:
            return self._values[name]
        except KeyError:
            raise UnknownLayerError(name, self._values) from None

    def _needed(self, computed: Mapping[int, object], wanted: Sequence[int]) -> set[int]:
        """List the values to have for ``wanted``: those that are given, and those to compute."""
        named = ", ".join(self._names[index] for index in wanted)
        if not computed:
            raise GraphError(f"{named} cannot be computed from nothing: feed the inputs, or an earlier run's tensors")
        needed: set[int] = set()
        ahead = list(wanted)
        while ahead:
            index = ahead.pop()
            if index in needed:
                continue
            needed.add(index)
            if index in computed:
                continue
            if index not in self._maker:
                fed = ", ".join(sorted(self._names[index] for index in computed))
                raise GraphError(
                    f"{named} cannot be computed from {fed}: the input {self._names[index]!r} is needed too"
                )
            ahead.extend(self._maker[index].reads)
        return needed

    @cached_property
    def _maker(self) -> dict[int, Step]:
        return {index: step for step in self._captured.steps for index in step.writes}

    def _steps(self, reads: Collection[int], needed: set[int]) -> list[Step]:
        computed = needed.difference(reads)
        return [step for step in self._captured.steps if any(index in computed for index in step.writes)]

    def _part(self, reads: Sequence[int], computed: Sequence[int], needed: set[int]) -> Callable[..., list[Any]]:
        key = (tuple(reads), tuple(computed))
        if key not in self._parts:
            steps = self._steps(reads, needed)

            def run(*tensors: Any) -> list[Any]:
                return _ran(steps, dict(zip(reads, tensors, strict=True)), computed, training=False)

            symbols = [self._captured.symbols[index] for index in reads]
            signature = [tf.TensorSpec(symbol.shape, symbol.dtype) for symbol in symbols]
            self._parts[key] = tf.function(run, input_signature=signature, autograph=False)
        return self._parts[key]


def _ran(steps: Sequence[Step], values: dict[int, Any], want: Sequence[int], *, training: bool) -> list[Any]:
    for step in steps:
        # What is fed wins: a step of several values may run for another of them.
        values = {**dict(zip(step.writes, step(values, training=training), strict=True)), **values}
    return [values[index] for index in want]


def _array(tensor: Any) -> NDArray[np.generic]:
    """View a tensor as an array, without a copy where its memory is the CPU's."""
    return np.asarray(memoryview(tensor)) if tensor.dtype != tf.bfloat16 else tensor.numpy()


def open_model(model: object, inputs: Sequence[TensorSpec], device: str) -> KerasModel:
    """Open a built model into a graph that runs on a device, which is TensorFlow's name of one."""
    captured = capture(model, inputs)
    paths = known_paths(model)
    if paths:
        # The layers of the author's own classes are not there any more, and their paths are.
        values = {name: index for index, name in enumerate(value_names(captured))}
        captured.returned = {path: values[name] for path, name in paths.items() if name in values}
    return KerasModel(captured, inputs, device)
