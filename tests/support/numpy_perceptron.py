"""A third framework: perceptrons of numpy, in one file."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np
from pyspark import cloudpickle
from safetensors.numpy import load, save

from optimizer.errors import GraphError, UnknownLayerError
from optimizer.graph import Layer, LayerGraph
from udfs.handlers import (
    Framework,
    TensorSpec,
    UntraceableModelError,
    inherited_weights,
    output_at,
    take_random,
    train_in_steps,
)
from udfs.metrics import merge_sums
from udfs.packing import StateError, pack, unpack
from udfs.training import Diverged, LossFacts, TaskSums, TrainerError, batch_weights
from udfs.weights import WeightsError, local_file

Arrays = dict[str, Any]

# The workers have no such module: the framework goes to them by value. An installed package goes by its name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def shapes(arrays: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


class Perceptron:
    """One hidden layer with ReLU; weights are drawn from numpy's generator."""

    layers = ("fc1", "relu1", "fc2")

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        self.weights: Arrays = {}
        for name, rows, columns in (("fc1", inputs, hidden), ("fc2", hidden, outputs)):
            drawn = np.random.standard_normal((rows, columns))  # the generator that a run seeds
            self.weights[f"{name}.weight"] = (drawn * np.sqrt(2 / rows)).astype(np.float32)
            self.weights[f"{name}.bias"] = np.zeros(columns, np.float32)

    def layer(self, name: str, x: Any) -> Any:
        if name == "relu1":
            return np.maximum(x, 0)
        return x.reshape(len(x), -1) @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def __call__(self, x: Any) -> dict[str, Any]:
        """Compute what training and features read."""
        hidden = self.layer("relu1", self.layer("fc1", x))
        return {"input": x.reshape(len(x), -1), "relu1": hidden, "fc2": self.layer("fc2", hidden)}


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

    output_keys: tuple[str | int, ...] = ()

    def __init__(self, model: Perceptron, spec: TensorSpec) -> None:
        self._model = model
        layers = [Layer("input", "input", (), spec.shape, spec.dtype)]
        for name in model.layers:
            below, own = layers[-1], [array for key, array in model.weights.items() if key.startswith(name)]
            shape, flops = (own[1].shape, 2 * own[0].size) if own else (below.output_shape, 0)
            mark, size = hashlib.sha256(b"".join(own)).hexdigest(), sum(array.nbytes for array in own)
            layers.append(Layer(name, name[:-1], (below.name,), shape, flops=flops, param_bytes=size, fingerprint=mark))
        self.graph = LayerGraph(layers, [layers[-1].name])

    def output_layer(self, key: str | int) -> str:
        return output_at(key, {})

    def prepare(self, threads: int) -> Traced:  # numpy has the process's threads
        return self

    def layer(self, name: str) -> str:
        if name not in self.graph:
            raise UnknownLayerError(name, self.graph.names)
        return name

    def run(self, feeds: Arrays, want: Any) -> Arrays:
        fed = {self.layer(name): array for name, array in feeds.items()}
        return {name: self._tensor(self.layer(name), fed) for name in want}

    def _tensor(self, name: str, fed: Arrays) -> Any:
        if name in fed:
            return fed[name]
        if name == "input":
            raise GraphError(f"what is wanted cannot be computed from {', '.join(fed) or 'nothing'}")
        return self._model.layer(name, self._tensor(self.graph[name].inputs[0], fed))


class NumpySession:
    """Trains a perceptron by softmax and cross-entropy."""

    loss_of, ending, facts = None, staticmethod(lambda _inputs: "linear"), LossFacts("softmax", "classes", "logits")
    follow_metric = staticmethod(lambda _metric: None)

    def __init__(self, trainer: Any) -> None:
        if not isinstance(trainer.optimizer, Momentum):
            raise TrainerError(f"optimizer is a {type(trainer.optimizer).__name__}: a perceptron takes a Momentum")
        self.model, self._optimizer = trainer.model, trainer.optimizer
        self._batches = {"batch_size": trainer.batch_size, "drop_last": trainer.drop_last}
        self.sums, self.random = TaskSums(trainer.metrics, self.facts, trainer.task), take_random()

    @property
    def weight_bytes(self) -> int:
        return sum(array.nbytes for array in self.model.weights.values())

    def checkpoint(self) -> bytes:
        state = {"weights": self.model.weights, "velocity": self._optimizer.velocity, "random": self.random}
        return pack(state, lambda value: (value, "numpy") if isinstance(value, np.ndarray) else None)

    def restore(self, state: bytes) -> None:
        saved = unpack(state, lambda array, _kind: array.copy())
        if shapes(saved["weights"]) != shapes(self.model.weights):
            raise StateError("a checkpoint of another model: its weights have other shapes")
        self.model.weights, self._optimizer.velocity = saved["weights"], saved["velocity"]
        self.random = saved["random"]

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        saved = unpack(state, lambda array, _kind: array.copy())
        if odd := shapes(saved["weights"]).items() ^ shapes(self.model.weights).items():
            raise StateError(f"the source has another {min(odd)[0]}")
        self.model.weights = saved["weights"]
        if optimizer:
            self._optimizer.velocity = saved["velocity"]

    def inherit(self, state: bytes) -> None:
        weights = unpack(state, lambda array, _kind: array.copy())["weights"]
        taken, self.inherited = inherited_weights(self.model.weights, weights)
        self.model.weights |= taken

    def train(self, data: Any, order: Any, *, ends_epoch: bool) -> Arrays:
        return train_in_steps(self, data, order, **self._batches, ends_epoch=ends_epoch)

    def begin(self) -> None:
        self._unit, self._rows = np.zeros(2), 0

    def step(self, inputs: Any, labels: Any, weights: Any) -> None:
        loss, tensors, slope = self._loss(inputs[0], labels[0], weights.relative)
        if not np.isfinite(loss):
            raise Diverged(f"the loss became {loss} after {self._rows} rows of the shard")
        self._unit += (loss * weights.total, weights.total)
        self._rows += len(inputs[0])
        inner = (slope @ self.model.weights["fc2.weight"].T) * (tensors["relu1"] > 0)
        gradients = {"fc1.weight": tensors["input"].T @ inner, "fc1.bias": inner.sum(axis=0)}
        gradients |= {"fc2.weight": tensors["relu1"].T @ slope, "fc2.bias": slope.sum(axis=0)}
        self._optimizer.step(self.model, gradients)

    def end(self, *, ends_epoch: bool) -> Arrays:  # nothing counts epochs
        return {"loss": self._unit}

    def evaluate(self, data: Any) -> Arrays:
        weights = batch_weights(data, slice(None), data.rows)
        loss, tensors, _ = self._loss(data.inputs[0], data.labels[0], weights.relative)
        part = {"loss": np.array([loss * weights.total, weights.total], np.float64)}
        return merge_sums(part, self.sums.contributions(tensors["fc2"], data.labels[0], weights.own))

    def predict(self, inputs: Any) -> tuple[Any, ...]:
        return (self.model(inputs[0])["fc2"],)

    def read(self, inputs: Any) -> list[Any]:
        return [np.ascontiguousarray(array, np.float32) for array in inputs]

    def _loss(self, x: Any, labels: Any, weights: Any) -> tuple[float, Arrays, Any]:
        tensors = self.model(x)
        scores = tensors["fc2"].astype(np.float64)
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        wanted = np.eye(scores.shape[1])[labels.reshape(-1).astype(int)]
        column = 1.0 if weights is None else weights[:, None]
        loss = -float((logs * wanted * column).sum(axis=1).mean())
        return loss, tensors, ((np.exp(logs) - wanted) * column / len(x)).astype(np.float32)


class NumpyFramework(Framework):
    """The seam: everything that the project asks of a framework."""

    name, suffix, sample_weights = "numpy", ".safetensors", True

    def recognises(self, model: object) -> bool:
        return isinstance(model, Perceptron)

    def trace(self, model: object, inputs: Any, *, device: str = "cpu") -> Traced:
        self.device(device)
        if not isinstance(model, Perceptron):
            raise UntraceableModelError(f"expected a Perceptron, got a {type(model).__name__}")
        return Traced(model, inputs[0])

    def open_training(self, trainer: Any, device: str) -> NumpySession:  # the CPU
        return NumpySession(trainer)

    def export(self, model: Any, inputs: Any) -> bytes:  # the weights have all shapes
        return bytes(save(model.weights))

    def open_export(self, data: bytes) -> Any:
        model = Perceptron(1, 1, 1)
        model.weights = load(data)
        return lambda inputs: (model(inputs[0])["fc2"],)

    def parameters(self, network: Perceptron) -> int:
        return sum(array.size for array in network.weights.values())

    def load(self, builder: Any, inputs: Any, weights: Any, seed: int, name: str) -> Perceptron:
        network, arrays = self.build(builder, inputs, seed), load(local_file(weights).read_bytes())
        if shapes(arrays) != shapes(network.weights):
            raise WeightsError(f"the weights do not fit {name}: expected {shapes(network.weights)}")
        network.weights = arrays
        return network


FRAMEWORK = NumpyFramework()
