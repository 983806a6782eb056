"""A third framework: perceptrons of numpy, in one file."""

from __future__ import annotations

import hashlib
import io
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import cloudpickle

from optimizer.errors import GraphError, UnknownLayerError
from optimizer.graph import Layer, LayerGraph
from udfs.handlers import Framework, TensorSpec, UntraceableModelError
from udfs.metrics import Sums, merge_sums, metric
from udfs.packing import StateError, pack, unpack
from udfs.training import Diverged, TrainerError, apply_random, take_random
from udfs.weights import WeightsError, local_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Arrays = dict[str, Any]

# The workers have no such module: the framework goes to them by value. An installed package goes by its name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Perceptron:
    """Fully-connected layers with ReLU between them; weights are drawn from numpy's generator."""

    def __init__(self, *widths: int) -> None:
        self.weights: Arrays = {}
        for place, (rows, columns) in enumerate(pairwise(widths), 1):
            drawn = np.random.standard_normal((rows, columns))  # noqa: NPY002 - the generator that a run seeds
            self.weights[f"fc{place}.weight"] = (drawn * np.sqrt(2 / rows)).astype(np.float32)
            self.weights[f"fc{place}.bias"] = np.zeros(columns, np.float32)

    @property
    def depth(self) -> int:
        return len(self.weights) // 2

    def layers(self) -> list[str]:
        """Names in the order in which they run; each reads the one before."""
        inner = [name for place in range(1, self.depth) for name in (f"fc{place}", f"relu{place}")]
        return ["flat", *inner, f"fc{self.depth}"]

    def layer(self, name: str, x: Any) -> Any:
        if name == "flat":
            return np.ascontiguousarray(x, np.float32).reshape(len(x), -1)
        if name.startswith("relu"):
            return np.maximum(x, 0)
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def __call__(self, x: Any) -> dict[str, Any]:
        """Every layer's tensor."""
        tensors = {}
        for name in self.layers():
            tensors[name] = x = self.layer(name, x)
        return tensors


class Momentum:
    """The optimizer: ``velocity = momentum * velocity + gradient``."""

    def __init__(self, model: Perceptron, lr: float, momentum: float = 0.9) -> None:
        self.lr, self.momentum = lr, momentum
        self.velocity = {name: np.zeros_like(array) for name, array in model.weights.items()}

    def step(self, model: Perceptron, gradients: Arrays) -> None:
        for name, gradient in gradients.items():
            self.velocity[name] = self.momentum * self.velocity[name] + gradient
            model.weights[name] = (model.weights[name] - self.lr * self.velocity[name]).astype(np.float32)


class Traced:
    """A perceptron opened into layers."""

    def __init__(self, model: Perceptron, spec: TensorSpec) -> None:
        self._model = model
        layers, below, width = [Layer("input", "input", (), spec.shape, spec.dtype)], "input", int(np.prod(spec.shape))
        for name in model.layers():
            own = [model.weights[key] for key in (f"{name}.weight", f"{name}.bias") if key in model.weights]
            mark = hashlib.sha256(b"".join(array.tobytes() for array in own)).hexdigest() if own else ""
            flops, width = (2 * own[0].size, own[0].shape[1]) if own else (0, width)
            size, op = sum(array.nbytes for array in own), name.rstrip("0123456789")
            layers.append(Layer(name, op, (below,), (width,), flops=flops, param_bytes=size, fingerprint=mark))
            below = name
        self.graph = LayerGraph(layers, [below])

    def prepare(self, threads: int) -> Traced:  # noqa: ARG002 - numpy has the process's threads
        return self

    def layer(self, name: str) -> str:
        if name not in self.graph:
            raise UnknownLayerError(name, self.graph.names)
        return name

    def run(self, feeds: Mapping[str, Any], want: Sequence[str]) -> Arrays:
        values = {self.layer(name): array for name, array in feeds.items()}
        for name in want:
            chain = [self.layer(name)]
            while chain[-1] not in values:
                if not self.graph[chain[-1]].inputs:
                    raise GraphError(f"{name} cannot be computed from {', '.join(feeds) or 'nothing'}")
                chain += self.graph[chain[-1]].inputs
            for below, above in zip(chain[::-1], chain[-2::-1], strict=False):
                values[above] = self._model.layer(above, values[below])
        return {name: values[name] for name in want}


class NumpySession:
    """Trains a perceptron by softmax and cross-entropy."""

    threshold = 0.0

    def __init__(self, trainer: Any) -> None:
        if not isinstance(trainer.optimizer, Momentum):
            raise TrainerError(f"optimizer is a {type(trainer.optimizer).__name__}: a perceptron takes a Momentum")
        self.model: Perceptron = trainer.model
        self._optimizer, self._batch_size = trainer.optimizer, trainer.batch_size
        self.sums = Sums([metric(wanted) for wanted in trainer.metrics])
        self.random = take_random()

    @property
    def weight_bytes(self) -> int:
        return sum(array.nbytes for array in self.model.weights.values())

    def checkpoint(self) -> bytes:
        state = {"weights": self.model.weights, "velocity": self._optimizer.velocity, "random": self.random}
        return pack(state, lambda value: (value, "numpy") if isinstance(value, np.ndarray) else None)

    def restore(self, state: bytes) -> None:
        saved = unpack(state, lambda array, _kind: array.copy())
        shapes = {name: array.shape for name, array in saved["weights"].items()}
        if shapes != {name: array.shape for name, array in self.model.weights.items()}:
            raise StateError("a checkpoint of another model: its weights have other shapes")
        self.model.weights, self._optimizer.velocity = saved["weights"], saved["velocity"]
        self.random = saved["random"]

    def train(self, data: Any, order: Any, *, ends_epoch: bool) -> Arrays:  # noqa: ARG002 - nothing counts epochs
        apply_random(self.random)
        total = 0.0
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            loss, tensors, slope = self._loss(data.inputs[0][rows], data.labels[0][rows])
            if not np.isfinite(loss):
                raise Diverged(f"the loss became {loss} after {start} rows of the shard")
            total, gradients = total + loss * len(rows), {}
            for place in range(self.model.depth, 0, -1):
                below = tensors[f"relu{place - 1}" if place > 1 else "flat"]
                gradients[f"fc{place}.weight"], gradients[f"fc{place}.bias"] = below.T @ slope, slope.sum(axis=0)
                slope = (slope @ self.model.weights[f"fc{place}.weight"].T) * (below > 0)
            self._optimizer.step(self.model, gradients)
        self.random = take_random()
        return {"loss": np.array([total, data.rows], np.float64)}

    def evaluate(self, data: Any) -> Arrays:
        loss, tensors, _ = self._loss(data.inputs[0], data.labels[0])
        part = {"loss": np.array([loss * data.rows, data.rows], np.float64)}
        return merge_sums(part, self.sums.of(list(tensors.values())[-1], data.labels[0], self.threshold))

    def predict(self, inputs: Any) -> tuple[Any, ...]:
        return (list(self.model(inputs[0]).values())[-1],)

    def read(self, inputs: Any) -> list[Any]:
        return [np.ascontiguousarray(array, np.float32) for array in inputs]

    def _loss(self, x: Any, labels: Any) -> tuple[float, Arrays, Any]:
        tensors = self.model(x)
        scores = list(tensors.values())[-1].astype(np.float64)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        rows, classes = np.arange(len(x)), labels.reshape(-1).astype(int)
        loss = -float(np.log(np.maximum(shares[rows, classes], 1e-300)).mean()) if np.isfinite(scores).all() else np.nan
        shares[rows, classes] -= 1
        return loss, tensors, (shares / len(x)).astype(np.float32)


class NumpyFramework(Framework):
    """The seam: everything that the project asks."""

    name, suffix = "numpy", ".npz"

    def recognises(self, model: object) -> bool:
        return isinstance(model, Perceptron)

    def trace(self, model: object, inputs: Sequence[TensorSpec], *, device: str = "cpu") -> Traced:
        self.device(device)
        if not isinstance(model, Perceptron):
            raise UntraceableModelError(f"expected a Perceptron, got a {type(model).__name__}")
        return Traced(model, inputs[0])

    def open_training(self, trainer: Any, device: str) -> NumpySession:  # noqa: ARG002 - the CPU
        return NumpySession(trainer)

    def export(self, model: Any, inputs: Any) -> bytes:  # noqa: ARG002 - the weights have all shapes
        np.savez(buffer := io.BytesIO(), **model.weights)
        return buffer.getvalue()

    def open_export(self, data: bytes) -> Any:
        model = self._with(Perceptron(), io.BytesIO(data))
        return lambda arrays: (list(model(arrays[0]).values())[-1],)

    def parameters(self, network: Perceptron) -> int:
        return sum(array.size for array in network.weights.values())

    def load(self, builder: Any, inputs: Any, weights: Any, seed: int, name: str) -> Perceptron:
        network = self.build(builder, inputs, seed)
        shapes = {key: array.shape for key, array in network.weights.items()}
        self._with(network, local_file(weights))
        if shapes != {key: array.shape for key, array in network.weights.items()}:
            raise WeightsError(f"the weights do not fit {name}: expected {shapes}")
        return network

    def _with(self, network: Perceptron, file: Any) -> Perceptron:
        with np.load(file, allow_pickle=False) as arrays:
            network.weights = {name: arrays[name] for name in arrays.files}
        return network


FRAMEWORK = NumpyFramework()
