"""Training by Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from udfs.training._metrics import metric
from udfs.training._random import apply_random, take_random
from udfs.training._session import Diverged
from udfs.training._state import StateError, pack, unpack
from udfs.training._sums import Sums, merge_sums
from udfs.training._trainer import TrainerError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.shards import Tensors
    from udfs.training._trainer import ModelTrainer

__all__ = ["KerasSession"]

_EVALUATED = 256

# Batches between two looks at the loss, each of which waits for the device.
_LOOKS = 16


class KerasSession:
    """A :class:`ModelTrainer` of Keras, open; see :class:`udfs.training.Session`.

    Parameters
    ----------
    trainer : ModelTrainer
    """

    def __init__(self, trainer: ModelTrainer) -> None:
        model = trainer.model
        if not model.built:
            raise TrainerError(
                f"the model {model.name!r} is not built, so it has no weights yet: give it an Input, or call build()"
            )
        model.compile(optimizer=trainer.optimizer, loss=trainer.loss, jit_compile=False)
        # Its slots are made at the first step otherwise, after the first checkpoint would have wanted them.
        model.optimizer.build(model.trainable_variables)
        self._trainer = trainer
        self.model = model
        self.sums = Sums([metric(wanted) for wanted in trainer.metrics])
        self.threshold = 0.5 if _of_probabilities(trainer.loss) else 0.0
        self.random = take_random()

    @property
    def weight_bytes(self) -> int:
        """Of weights and buffers."""
        return sum(int(np.asarray(variable).nbytes) for variable in self.model.variables)

    def checkpoint(self) -> bytes:
        """All that it takes to go on elsewhere."""
        state = {
            # With the states of its seed generators, which dropout draws from.
            "model": [variable.numpy() for variable in self.model.variables],
            "optimizer": [variable.numpy() for variable in self.model.optimizer.variables],
            "random": self.random,
        }
        return pack(state, _as_array)

    def restore(self, state: bytes) -> None:
        """Go on from a checkpoint."""
        found = unpack(state, lambda array, _kind: array)
        for kept, variables in (
            (found["model"], self.model.variables),
            (found["optimizer"], self.model.optimizer.variables),
        ):
            if [np.shape(value) for value in kept] != [tuple(variable.shape) for variable in variables]:
                raise StateError("a checkpoint of another model: its variables have other shapes")
            for value, variable in zip(kept, variables, strict=True):
                variable.assign(value)
        self.random = found["random"]

    def train(self, data: Tensors, order: NDArray[np.int64], *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:  # noqa: ARG002 - Keras counts steps alone
        """One training unit."""
        apply_random(self.random)
        self.model.reset_metrics()
        loss = 0.0
        size = self._trainer.batch_size
        for number, start in enumerate(range(0, len(order), size)):
            picked = order[start : start + size]
            logs = self.model.train_on_batch(*_fed(data, picked), return_dict=True)
            if number % _LOOKS == 0 or start + size >= len(order):
                loss = float(logs["loss"])
                if not np.isfinite(loss):
                    raise Diverged(f"the loss became {loss} after {start} rows of the shard")
        self.random = take_random()
        return {"loss": np.array([loss * data.rows, data.rows], np.float64)}

    def evaluate(self, data: Tensors) -> dict[str, NDArray[np.float64]]:
        """The loss and the metrics over a shard."""
        self.model.reset_metrics()
        contributions: dict[str, NDArray[np.float64]] = {}
        loss = 0.0
        for start in range(0, data.rows, _EVALUATED):
            picked = slice(start, start + _EVALUATED)
            inputs, labels = _fed(data, picked)
            loss = float(self.model.test_on_batch(inputs, labels, return_dict=True)["loss"])
            if self.sums.metrics:
                outputs = self._outputs(tuple(array[picked] for array in data.inputs))
                part = self.sums.of(outputs[0], data.labels[0][picked], self.threshold)
                contributions = merge_sums(contributions, part)
        return {"loss": np.array([loss * data.rows, data.rows], np.float64)} | contributions

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Outputs in inference mode."""
        return self._outputs(inputs)

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Inputs as the model itself takes them."""
        return [_scaled(array) for array in inputs]

    def _outputs(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        found = self.model.predict_on_batch(_one_or_all([_scaled(array) for array in inputs]))
        listed = found if isinstance(found, (list, tuple)) else [found]
        return tuple(np.asarray(output, np.float32) for output in listed)


def _as_array(value: Any) -> tuple[NDArray[np.generic], str] | None:
    if isinstance(value, np.ndarray):
        return value, "numpy"
    # Of an optimiser's counters, which numpy gives as scalars.
    return (np.asarray(value), "numpy") if isinstance(value, np.generic) else None


def _fed(data: Tensors, picked: Any) -> tuple[Any, Any]:
    inputs = [_scaled(array[picked]) for array in data.inputs]
    return _one_or_all(inputs), _one_or_all([array[picked] for array in data.labels])


def _scaled(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) / 255.0 if array.dtype == np.uint8 else np.ascontiguousarray(array)


def _one_or_all(arrays: list[NDArray[Any]]) -> Any:
    return arrays[0] if len(arrays) == 1 else arrays


def _of_probabilities(loss: Any) -> bool:
    found = keras.losses.get(loss) if isinstance(loss, str) else loss
    if isinstance(found, keras.losses.BinaryCrossentropy):
        return not found.get_config().get("from_logits", False)
    return found is keras.losses.binary_crossentropy
