"""Process of the bare arms, which trains candidates, whole or the branch alone, in bare torch or Keras.

A program of its own: ``_bare.Fleet`` starts it, and the number of a socket is its first argument.
"""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from benchmarks.adaptation._outcome import Trained
from udfs.node import keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from benchmarks.adaptation._workloads import Workload

__all__ = ["KerasTrainee", "Mode", "TorchTrainee", "Trainee", "stem"]

Mode = Literal["whole", "branch"]

_EVALUATED = 256


class Trainee(Protocol):
    """A framework's side of a process: one workload, candidate by candidate."""

    def initial(self, number: int) -> None:
        """Write a candidate's initial checkpoint."""

    def features(self, number: int, path: Path) -> None:
        """Write the branch's inputs of all records."""

    def train(self, number: int, mode: Mode, cycle: int, epochs: int | None = None) -> Trained:
        """Train a candidate on the labels of a cycle."""


def stem(scheme: Any) -> str:
    """Name the files of a scheme's features."""
    return f"features-{str(scheme).replace(' ', '-')}"


class _Rows:
    """Rows of a cycle: those that train, and those that validate."""

    def __init__(self, work: Workload, cycle: int) -> None:
        until = work.until(cycle)
        train = work.records.train(until)
        self.train, self.held = np.flatnonzero(train), np.flatnonzero(~train)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Rows in an epoch's order."""
        return self.train[np.random.default_rng([0, epoch]).permutation(len(self.train))]


class TorchTrainee:
    """Bare torch."""

    def __init__(self, work: Workload, folder: Path, layout: str, threads: int) -> None:
        import torch  # not beside TensorFlow

        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        self._torch, self._work, self._folder = torch, work, folder
        self._last = torch.channels_last if layout == "NHWC" else None
        self._inputs = [torch.from_numpy(array) for array in work.records.inputs.values()]
        self._labels = torch.from_numpy(work.records.labels)
        self._metric: Callable[[Any, Any], Any] = _accuracy
        if work.labels_are_sequences:
            from benchmarks.adaptation._nets import entity_accuracy

            self._metric = entity_accuracy

    def _made(self, number: int) -> Any:
        self._torch.manual_seed(number)
        trainer = self._work.trainer(self._work.space[number])
        if self._last is not None:
            trainer.model.to(memory_format=self._last)
        return trainer

    def initial(self, number: int) -> None:
        self._torch.save(self._made(number).model.state_dict(), self._folder / f"initial-{number}.pt")

    def features(self, number: int, path: Path) -> None:
        torch, net = self._torch, self._made(number).model
        parts = []
        with torch.inference_mode():
            net.eval()
            for start in range(0, len(self._labels), 32):
                outputs = net.frozen(*self._batch(self._inputs, slice(start, start + 32)))
                parts.append([each.numpy() for each in outputs])
        for place, arrays in enumerate(zip(*parts, strict=True)):
            np.save(f"{path}.{place}.npy", np.concatenate(arrays))

    def train(self, number: int, mode: Mode, cycle: int, epochs: int | None = None) -> Trained:
        torch, params, rows = self._torch, self._work.space[number], _Rows(self._work, cycle)
        trainer = self._made(number)
        net, solver = trainer.model, trainer.optimizer
        inputs, forward = self._inputs, net
        if mode == "whole":
            _put(net, torch.load(self._folder / f"initial-{number}.pt", weights_only=True))
        else:
            paths = sorted(self._folder.glob(f"{stem(params['scheme'])}.*.npy"))
            inputs = [torch.from_numpy(np.load(each, mmap_mode="c")) for each in paths]
            forward = net.branch
        losses = []
        for epoch in range(epochs or params["epochs"]):
            net.train()
            order, total = rows.order(epoch), 0.0
            for start in range(0, len(order), params["batch"]):
                picked = torch.from_numpy(order[start : start + params["batch"]])
                solver.zero_grad(set_to_none=True)
                loss = trainer.loss(forward(*self._batch(inputs, picked)), self._labels[picked])
                loss.backward()
                solver.step()
                total += float(loss.detach()) * len(picked)
            losses.append(total / max(1, len(order)))
            metric = self._evaluated(net, forward, inputs, rows.held)
        if mode == "whole":
            state = {"model": net.state_dict(), "optimizer": solver.state_dict()}
            torch.save(state, self._folder / f"trained-{number}.pt")
        return Trained(metric, tuple(losses))

    def _evaluated(self, net: Any, forward: Any, inputs: Sequence[Any], held: NDArray[np.int64]) -> float:
        net.eval()
        found = []
        with self._torch.inference_mode():
            for start in range(0, len(held), _EVALUATED):
                picked = self._torch.from_numpy(held[start : start + _EVALUATED])
                scores = forward(*self._batch(inputs, picked))
                found.append(self._metric(scores.numpy(), self._labels[picked].numpy()))
        return float(np.concatenate(found).mean()) if found else 0.0

    def _batch(self, inputs: Sequence[Any], picked: Any) -> list[Any]:
        taken = [each[picked] for each in inputs]
        taken = [each.float() / 255.0 if each.dtype == self._torch.uint8 else each for each in taken]
        if self._last is None:
            return taken
        return [each.contiguous(memory_format=self._last) if each.dim() == 4 else each for each in taken]


def _put(net: Any, state: Mapping[str, Any]) -> None:
    """Take a checkpoint's tensors as they are: the model's own may be pages of a file, which are not to be written."""
    for path, tensor in net.named_parameters():
        tensor.data = state[path]
    for path, tensor in net.named_buffers():
        if path in state:
            tensor.data = state[path]


def _accuracy(scores: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    right: NDArray[np.float64] = (scores.argmax(-1) == labels).astype(np.float64)
    return right


class KerasTrainee:
    """Bare Keras. A candidate's model stays open, for Keras compiles it anew otherwise."""

    def __init__(self, work: Workload, folder: Path, layout: str, threads: int) -> None:  # of torch alone
        import keras  # not beside torch
        import tensorflow as tf

        if tf.config.threading.get_intra_op_parallelism_threads() != threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        tf.get_logger().setLevel("ERROR")
        self._keras, self._work, self._folder = keras, work, folder
        self._inputs = [_scaled(array) for array in work.records.inputs.values()]
        self._open: dict[tuple[int, Mode], tuple[Any, list[Any], list[Any]]] = {}

    def _made(self, number: int, mode: Mode) -> tuple[Any, list[Any], list[Any]]:
        if (number, mode) not in self._open:
            from benchmarks.adaptation._keras import fine_tuned  # imports Keras

            self._keras.utils.set_random_seed(number)
            params, trainer = self._work.space[number], self._work.trainer
            if mode == "whole":
                made = trainer(params)
                model, solver, loss = made.model, made.optimizer, made.loss
            else:
                model = fine_tuned(trainer.weights, params["scheme"], trainer.classes).branch
                solver = self._keras.optimizers.Adam(params["lr"])
                loss = self._keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(optimizer=solver, loss=loss, metrics=["accuracy"], jit_compile=False)
            solver.build(model.trainable_variables)
            self._open[number, mode] = model, model.get_weights(), [each.numpy() for each in solver.variables]
        return self._open[number, mode]

    def initial(self, number: int) -> None:
        self._made(number, "whole")[0].save_weights(self._folder / f"initial-{number}.weights.h5")

    def features(self, number: int, path: Path) -> None:
        from benchmarks.adaptation._keras import fine_tuned  # imports Keras

        trainer = self._work.trainer
        frozen = fine_tuned(trainer.weights, self._work.space[number]["scheme"], trainer.classes).frozen
        np.save(f"{path}.0.npy", frozen.predict(self._inputs[0], batch_size=_EVALUATED, verbose=0))

    def train(self, number: int, mode: Mode, cycle: int, epochs: int | None = None) -> Trained:
        params, rows = self._work.space[number], _Rows(self._work, cycle)
        model, first, slots = self._made(number, mode)
        inputs = self._inputs
        for variable, value in zip(model.optimizer.variables, slots, strict=True):
            variable.assign(value)
        if mode == "whole":
            model.load_weights(self._folder / f"initial-{number}.weights.h5")
        else:
            model.set_weights(first)
            inputs = [np.load(f"{self._folder / stem(params['scheme'])}.0.npy", mmap_mode="r")]
        labels = self._work.records.labels
        course = model.fit(
            inputs[0][rows.train],
            labels[rows.train],
            batch_size=params["batch"],
            epochs=epochs or params["epochs"],
            validation_data=(inputs[0][rows.held], labels[rows.held]),
            validation_batch_size=_EVALUATED,
            verbose=0,
        ).history
        if mode == "whole":
            model.save(self._folder / f"trained-{number}.keras")
        return Trained(float(course["val_accuracy"][-1]), tuple(map(float, course["loss"])))


def _scaled(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) / 255.0 if array.dtype == np.uint8 else array


def _serve(link: Connection, threads: int) -> None:
    """Answer orders until the connection is closed."""
    # glibc maps every large tensor anew otherwise, which costs the bare loop more than anything else in it.
    keep_freed_memory()
    trainee: Any = None
    while True:
        try:
            what, *given = link.recv()
        except EOFError:
            return
        try:
            if what == "open":
                work, folder, layout = given
                kind = KerasTrainee if work.framework == "keras" else TorchTrainee
                trainee = kind(work, folder, layout, threads)
                answer = None
            else:
                answer = getattr(trainee, what)(*given)
        except Exception as error:  # raised again at the other end
            answer = RuntimeError(f"{what}: {type(error).__name__}: {error}")
        link.send(answer)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
