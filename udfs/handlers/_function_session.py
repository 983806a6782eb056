"""Training by the user's own function (Cerebro, appendix A.1)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from udfs.handlers._random import apply_random, take_random
from udfs.handlers._trainer import ModelTrainer, trainer_framework
from udfs.training import Diverged, LossFacts, TaskSums, TrainerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from udfs.shards import Tensors
    from udfs.training import BatchWeights, Ending, Rows, TrainingFunctions

__all__ = ["FunctionSession"]


class FunctionSession:
    """A session of :class:`TrainingFunctions`; see :class:`udfs.training.Session`.

    ``device`` is that of the model, unless ``model_fn`` put it on an accelerator.
    """

    def __init__(self, functions: TrainingFunctions, params: dict[str, Any], device: str) -> None:
        self._functions = functions
        self._params = params
        self.model, self._optimizer = functions.model_fn(dict(params))
        trainer = ModelTrainer(model=self.model, optimizer=self._optimizer, loss=None)
        self._framework = trainer_framework(trainer)
        self._device = self._framework.device_of(self.model) or self._framework.device(device)
        self._inner = self._framework.open_training(trainer, self._device)
        # The user alone knows whether larger values of the function's other numbers are better.
        self.sums = TaskSums((), LossFacts("train_fn"), functions.task)
        self._read: dict[int, tuple[Rows, Any]] = {}

    @property
    def random(self) -> dict[str, Any]:
        """State of the random number generators between two units."""
        return self._inner.random

    @random.setter
    def random(self, state: dict[str, Any]) -> None:
        self._inner.random = state

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights and buffers."""
        return self._inner.weight_bytes

    def checkpoint(self) -> bytes:
        """Write everything that training needs to continue elsewhere."""
        return self._inner.checkpoint()

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint."""
        self._inner.restore(state)

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        """Begin from the checkpoint of another configuration."""
        self._inner.adopt(state, optimizer=optimizer)

    def inherit(self, state: bytes) -> None:
        """Begin with those weights of another configuration that fit."""
        self._inner.inherit(state)

    @property
    def inherited(self) -> str:
        """Description of the weights that :meth:`inherit` took over."""
        return self._inner.inherited

    def train(self, data: Rows, order: NDArray[np.int64], *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Call ``train_fn`` once on a shard; it draws its own order, and has no epochs."""
        apply_random(self._inner.random)
        contributions = self._call(data)
        self._inner.random = take_random()
        return contributions

    def begin(self) -> None:
        """Refuse: only ``train_fn`` knows its batches."""
        raise TrainerError("train_fn of TrainingFunctions trains whole shards: give a ModelTrainer to train in steps")

    def step(
        self,
        inputs: tuple[NDArray[Any], ...],
        labels: tuple[NDArray[Any], ...],
        weights: BatchWeights,
    ) -> None:
        """Refuse, as :meth:`begin` does."""
        self.begin()

    def end(self, *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Refuse, as :meth:`begin` does."""
        self.begin()
        return {}

    def follow_metric(self, value: float) -> None:
        """Do nothing: a scheduler in ``train_fn`` is out of reach."""

    def evaluate(self, data: Rows) -> dict[str, NDArray[np.float64]]:
        """Call ``train_fn`` once with a model that cannot learn."""
        with self._frozen():
            return self._call(data)

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Run the network in inference mode."""
        return self._inner.predict(inputs)

    def ending(self, inputs: tuple[NDArray[Any], ...]) -> Ending:
        """Return the last operation of the network, on a batch."""
        return self._inner.ending(inputs)

    @property
    def loss_of(self) -> None:
        """``None``: only ``train_fn`` computes the loss."""

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Convert inputs to what the model itself takes."""
        return self._inner.read(inputs)

    def _call(self, data: Rows) -> dict[str, NDArray[np.float64]]:
        if id(data) not in self._read:
            read = self._functions.input_fn(cast("Tensors", data)) if self._functions.input_fn is not None else data
            # The tensors are kept with what was read of them, so that no other shard gets their id.
            self._read[id(data)] = (data, read)
        with self._framework.on(self._device):
            means = self._functions.train_fn(self._read[id(data)][1], self.model, self._optimizer, self._params)
        if not hasattr(means, "items") or "loss" not in means:
            raise TrainerError(
                f'train_fn gave {means!r}: it has to give a mapping of names to means, "loss" among them'
            )
        if not np.isfinite(float(means["loss"])):
            raise Diverged(f"the loss became {float(means['loss'])}")
        total = data.rows if data.weights is None else float(data.weights.sum(dtype=np.float64))
        return {name: np.array([float(value) * total, total], np.float64) for name, value in means.items()}

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        before = take_random()
        try:
            with self._framework.frozen(self.model):
                yield
        finally:
            apply_random(before)
