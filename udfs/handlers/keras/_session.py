"""Training by Keras."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from udfs.handlers._random import take_random
from udfs.handlers._steps import train_in_steps
from udfs.handlers.keras._adoption import adopt_state, adopt_weights, inherit_weights, rate_places
from udfs.handlers.keras._freezing import Freezing
from udfs.handlers.keras._loss_facts import is_users_class, loss_facts, needs_columns, network_ending, unused_inputs
from udfs.handlers.keras._modes import frozen_in_inference
from udfs.handlers.keras._variable_names import variable_names
from udfs.metrics import merge_sums
from udfs.packing import StateError, pack, unpack
from udfs.training import BatchWeights, Diverged, TaskSums, TrainerError, batch_weights, check_losses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from udfs.training import Ending, Rows, Trainer

__all__ = ["KerasSession", "scaled"]

_EVALUATED = 256


class KerasSession:
    """A session of Keras; see :class:`udfs.training.Session`.

    ``placed`` makes a ``with`` block whose operations run on the session's device; each step is in one.
    """

    def __init__(self, trainer: Trainer, placed: Callable[[], AbstractContextManager[None]]) -> None:
        if trainer.scheduler is not None:
            raise TrainerError("scheduler is of torch: Keras takes a LearningRateSchedule as its optimizer's rate")
        model = trainer.model
        if not model.built:
            raise TrainerError(
                f"the model {model.name!r} is not built, so it has no weights yet: give it an Input, or call build()"
            )
        self._placed = placed
        # What runs: a session of a part of the model has another one here.
        self.network = model
        with self._placed():
            model.compile(optimizer=trainer.optimizer, loss=trainer.loss, jit_compile=False)
            # Its slots are made at the first step otherwise, after the first checkpoint would have wanted them.
            model.optimizer.build(model.trainable_variables)
        self._trainer = trainer
        self.model = model
        self.epoch = 0  # epochs that are over
        self._freezing = Freezing(trainer)
        self._evaluations: dict[int, Callable[[Any, Any, Any], tuple[Any, Any]]] = {}
        self._first_loss = trainer.loss[0] if isinstance(trainer.loss, (list, tuple)) else trainer.loss
        self.sums = TaskSums(trainer.metrics, loss_facts(self._first_loss), trainer.task)
        self.random = take_random()
        self.inherited = ""
        self._gives_row_losses = False
        # Whether the loss of each label takes a column of single numbers; decided with the first batch.
        self._columns: list[bool] | None = None
        self.begin()

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights and buffers."""
        return sum(int(np.asarray(variable).nbytes) for variable in self.saved_tensors())

    def saved_tensors(self) -> list[Any]:
        """List the variables that a checkpoint has, with the states of seed generators, which dropout draws from."""
        return list(self.model.variables)

    def checkpoint(self) -> bytes:
        """Write everything that training needs to continue elsewhere."""
        return pack(self.state(), _as_array)

    def state(self) -> dict[str, Any]:
        """Collect what a checkpoint has."""
        return {
            "model": [variable.numpy() for variable in self.saved_tensors()],
            "names": variable_names(self.model, self.saved_tensors()),
            "optimizer": [variable.numpy() for variable in self.model.optimizer.variables],
            "optimizer_class": type(self.model.optimizer).__name__,
            "rates": rate_places(self.model.optimizer),
            "random": self.random,
            "epoch": self.epoch,
        }

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint."""
        self.load(self.opened(state))

    def load(self, saved: dict[str, Any]) -> None:
        """Take everything from a checkpoint's state; StateError where it does not fit."""
        pairs = ((saved["model"], self.saved_tensors()), (saved["optimizer"], self.model.optimizer.variables))
        for kept, variables in pairs:
            if [np.shape(value) for value in kept] != [tuple(variable.shape) for variable in variables]:
                raise StateError("a checkpoint of another model: its variables have other shapes")
        for kept, variables in pairs:
            for value, variable in zip(kept, variables, strict=True):
                variable.assign(value)
        self.random, self.epoch = saved["random"], saved.get("epoch", 0)

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        """Begin from the checkpoint of another configuration."""
        saved = self.opened(state)
        try:
            if optimizer:
                adopt_state(self.model, self.saved_tensors(), saved)
            else:
                adopt_weights(self.model, self.saved_tensors(), saved)
        except (KeyError, TypeError) as error:
            raise StateError(f"a checkpoint of another model: {error}") from error
        # A schedule of freezing goes on with a clone, and begins anew with weights alone.
        self.epoch = saved.get("epoch", 0) if optimizer else 0

    def inherit(self, state: bytes) -> None:
        """Begin with those weights of another configuration that fit."""
        try:
            self.inherited = inherit_weights(self.model, self.saved_tensors(), self.opened(state))
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"a checkpoint without names of variables, or of another framework: {error}") from error

    def opened(self, state: bytes) -> dict[str, Any]:
        """Open a checkpoint."""
        saved: dict[str, Any] = unpack(state, lambda array, _kind: array)
        return saved

    def train(self, data: Rows, order: NDArray[np.int64], *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Run one training unit."""
        size, drop_last = self._trainer.batch_size, self._trainer.drop_last
        return train_in_steps(self, data, order, size, ends_epoch=ends_epoch, drop_last=drop_last)

    def begin(self) -> None:
        """Begin a unit that is trained step by step."""
        self._loss_sum, self._rows, self._total = 0.0, 0, 0.0
        self._freezing.end()

    def step(self, inputs: tuple[NDArray[Any], ...], labels: tuple[NDArray[Any], ...], weights: BatchWeights) -> None:
        """Take one step."""
        if not self._freezing.begun:
            self._freezing.begin(self.epoch, self.network)
        # Some releases of Keras give a batch's loss, others the mean since the last reset.
        self.network.reset_metrics()
        fed = _one_or_all(self.read(inputs))
        with self._placed(), frozen_in_inference(self.model):
            step = self.network.train_on_batch(
                fed, _one_or_all(self._fitted(labels, fed)), weights.relative, return_dict=True
            )
        loss = float(step["loss"])
        if not np.isfinite(loss):
            raise Diverged(f"the loss became {loss} after {self._rows} rows of the shard")
        self._loss_sum += loss * weights.total
        self._rows += len(inputs[0])
        self._total += weights.total

    def end(self, *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Close the unit."""
        self.epoch += ends_epoch
        self._freezing.end()
        return {"loss": np.array([self._loss_sum, self._total], np.float64)}

    def follow_metric(self, value: float) -> None:
        """Do nothing: schedules of Keras follow steps, not metrics."""

    def evaluate(self, data: Rows) -> dict[str, NDArray[np.float64]]:
        """Compute the loss and the metrics over a shard."""
        contributions = {"loss": np.zeros(2)}
        self._check_labels(len(data.labels))
        for start in range(0, data.rows, _EVALUATED):
            picked = slice(start, start + _EVALUATED)
            labels = data.labels[0][picked]
            weights = batch_weights(data, picked, len(labels))
            with self._placed():
                loss, outputs = self._evaluated(data, picked, weights)
                if weights.own is not None and not self._gives_row_losses:
                    self._check_row_losses(data, picked)
            part = {"loss": np.array([float(loss) * weights.total, weights.total], np.float64)}
            if self.sums.metrics:
                first = np.asarray(_listed(outputs)[0], np.float32)
                part |= self.sums.contributions(first, labels, weights.own)
            contributions = merge_sums(contributions, part)
        return contributions

    def _check_labels(self, labels: int) -> None:
        """Raise TrainerError for labels without a loss or an output; subclassed models do not state their outputs."""
        outputs = len(getattr(self.model, "outputs", None) or [None] * labels)
        loss = self._trainer.loss
        # Keras repeats a single loss for all outputs.
        losses = len(loss) if isinstance(loss, (list, tuple)) else outputs
        check_losses(losses, outputs, labels)

    def _check_row_losses(self, data: Rows, picked: slice) -> None:
        """Refuse a loss of the user's own that gives one number a batch: Keras would take its weights for nothing."""
        inputs, _ = self._fed(data, picked)
        losses = self._trainer.loss if isinstance(self._trainer.loss, (list, tuple)) else [self._trainer.loss]
        for loss, label, output in zip(
            losses, data.labels, _listed(self.network(inputs, training=False)), strict=False
        ):
            function = loss.call if isinstance(loss, keras.losses.Loss) else loss
            if not callable(function) or str(getattr(function, "__module__", "")).startswith("keras."):
                continue
            known = label[picked]
            column = known.ndim < len(output.shape) and output.shape[-1] == 1
            shape = tuple(function(known[..., None] if column else known, output).shape)
            if shape[:1] != (len(known),):
                raise TrainerError(
                    f"the rows have weights, and the loss {getattr(loss, '__name__', type(loss).__name__)} gives "
                    f"numbers of shape {shape} for {len(known)} rows: it has to give one a row"
                )
        self._gives_row_losses = True

    def _evaluated(self, data: Rows, picked: slice, weights: BatchWeights) -> tuple[Any, Any]:
        """Compute a batch's loss and outputs in one forward pass."""
        inputs, labels = self._fed(data, picked)
        if type(self.network).test_step is keras.Model.test_step:
            return self._evaluation()(inputs, labels, weights.relative)
        # The author's own step says what the loss is, and gives no outputs.
        self.model.reset_metrics()
        loss = self.model.test_on_batch(inputs, labels, weights.relative, return_dict=True)["loss"]
        return loss, self.model.predict_on_batch(inputs) if self.sums.metrics else None

    def _evaluation(self) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
        """Return Keras's own ``test_step``, but with the outputs."""
        model = self.network
        if id(model) in self._evaluations:
            return self._evaluations[id(model)]

        def step(inputs: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
            outputs = model(inputs, **_not_training(model.call))
            # A user's own compute_loss may know no weights.
            keywords = {} if weights is None else {"sample_weight": weights}
            loss = model.compute_loss(
                x=inputs, y=labels, y_pred=outputs, **keywords, **_not_training(model.compute_loss)
            )
            return loss, outputs

        compiled: Callable[[Any, Any, Any], tuple[Any, Any]] = step
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf  # Keras has others beneath it too

            compiled = tf.function(step, reduce_retracing=True)
        self._evaluations[id(model)] = compiled
        return compiled

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Run the network in inference mode."""
        with self._placed():
            outputs = self.network.predict_on_batch(_one_or_all(self.read(inputs)))
        return tuple(np.asarray(output, np.float32) for output in _listed(outputs))

    def ending(self, inputs: tuple[NDArray[Any], ...]) -> Ending:
        """Return the last operation of the network; the inputs are not needed."""
        return network_ending(self.model)

    def unused_inputs(self, inputs: tuple[NDArray[Any], ...]) -> tuple[int, ...]:
        """List the places of the inputs that no layer of a functional model reads."""
        return unused_inputs(self.model)

    def loss_of(self, output: float, label: float) -> float:
        """Compute the first loss of a single output."""
        function = keras.losses.get(self._first_loss)
        rows = np.ones((2, 1), np.float32)
        with self._placed():
            return float(np.mean(keras.ops.convert_to_numpy(function(label * rows, output * rows))))

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Convert inputs to what the model itself takes."""
        return [scaled(array) for array in inputs]

    def _fed(self, data: Rows, picked: Any) -> tuple[Any, Any]:
        inputs = _one_or_all(self.read(tuple(array[picked] for array in data.inputs)))
        return inputs, _one_or_all(self._fitted([array[picked] for array in data.labels], inputs))

    def _fitted(self, labels: Sequence[NDArray[Any]], inputs: Any) -> list[NDArray[Any]]:
        """Return labels in the shapes that the losses take."""
        if self._columns is None:
            loss = self._trainer.loss
            losses = loss if isinstance(loss, (list, tuple)) else [loss] * len(labels)
            self._columns = [False] * len(labels)
            if any(map(is_users_class, losses)):
                outputs = _listed(self.network(inputs, training=False))
                for place, (each, label, output) in enumerate(zip(losses, labels, outputs, strict=False)):
                    self._columns[place] = needs_columns(each, label, tuple(output.shape))
        return [label[..., None] if column else label for label, column in zip(labels, self._columns, strict=True)]


def _as_array(value: Any) -> tuple[NDArray[np.generic], str] | None:
    if isinstance(value, np.ndarray):
        return value, "numpy"
    # Of an optimiser's counters, which numpy gives as scalars.
    return (np.asarray(value), "numpy") if isinstance(value, np.generic) else None


def scaled(array: NDArray[Any]) -> NDArray[Any]:
    """Divide eight-bit pixels by 255; return other inputs unchanged."""
    return array.astype(np.float32) / 255.0 if array.dtype == np.uint8 else np.ascontiguousarray(array)


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _not_training(function: Callable[..., Any]) -> dict[str, bool]:
    """Return the argument ``training=False`` if the author's function has this parameter."""
    return {"training": False} if "training" in inspect.signature(function).parameters else {}


def _one_or_all(arrays: list[NDArray[Any]]) -> Any:
    return arrays[0] if len(arrays) == 1 else arrays
