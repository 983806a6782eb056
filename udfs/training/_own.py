"""Training by the user's own function (Cerebro, appendix A.1)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.training._random import apply_random, take_random
from udfs.training._session import Diverged
from udfs.training._sums import Sums
from udfs.training._trainer import ModelTrainer, TrainerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from udfs.shards import Tensors
    from udfs.training._functions import TrainingFunctions
    from udfs.training._session import Session

__all__ = ["OwnSession"]


class OwnSession:
    """:class:`TrainingFunctions`, open; see :class:`udfs.training.Session`.

    Parameters
    ----------
    functions : TrainingFunctions
    params : dict
        Of the configuration.
    """

    def __init__(self, functions: TrainingFunctions, params: dict[str, Any]) -> None:
        self._functions = functions
        self._params = params
        self.model, self._optimizer = functions.model_fn(dict(params))
        trainer = ModelTrainer(model=self.model, optimizer=self._optimizer, loss=None)
        self._kept: Session
        if trainer.framework == "torch":
            from udfs.training._torch import TorchSession  # noqa: PLC0415 - only the framework that is there

            self._kept = TorchSession(trainer)
        else:
            from udfs.training._keras import KerasSession  # noqa: PLC0415

            self._kept = KerasSession(trainer)
        self._torch = trainer.framework == "torch"
        # Which way the function's other numbers are better, the user says.
        self.sums = Sums([])
        self.threshold = 0.0
        self._read: dict[int, tuple[Tensors, Any]] = {}

    @property
    def random(self) -> dict[str, Any]:
        """State of the generators that it draws from."""
        return self._kept.random

    @random.setter
    def random(self, state: dict[str, Any]) -> None:
        self._kept.random = state

    @property
    def weight_bytes(self) -> int:
        """Of weights and buffers."""
        return self._kept.weight_bytes

    def checkpoint(self) -> bytes:
        """All that it takes to go on elsewhere."""
        return self._kept.checkpoint()

    def restore(self, state: bytes) -> None:
        """Go on from a checkpoint."""
        self._kept.restore(state)

    def train(self, data: Tensors, order: NDArray[np.int64], *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:  # noqa: ARG002 - the function draws its own order, and knows no epochs
        """One call of ``train_fn`` on a shard."""
        apply_random(self._kept.random)
        found = self._call(data)
        self._kept.random = take_random()
        return found

    def evaluate(self, data: Tensors) -> dict[str, NDArray[np.float64]]:
        """One call of ``train_fn`` with a model that cannot learn."""
        with self._frozen():
            return self._call(data)

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Outputs in inference mode."""
        return self._kept.predict(inputs)

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Inputs as the model itself takes them."""
        return self._kept.read(inputs)

    def _call(self, data: Tensors) -> dict[str, NDArray[np.float64]]:
        if id(data) not in self._read:
            read = self._functions.input_fn(data) if self._functions.input_fn is not None else data
            # The tensors are kept with what was read of them, so that no other shard gets their id.
            self._read[id(data)] = (data, read)
        found = self._functions.train_fn(self._read[id(data)][1], self.model, self._optimizer, self._params)
        if not hasattr(found, "items") or "loss" not in found:
            raise TrainerError(
                f'train_fn gave {found!r}: it has to give a mapping of names to means, "loss" among them'
            )
        if not np.isfinite(float(found["loss"])):
            raise Diverged(f"the loss became {float(found['loss'])}")
        return {name: np.array([float(value) * data.rows, data.rows], np.float64) for name, value in found.items()}

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        before = take_random()
        if self._torch:
            learning = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
            training = self.model.training
            for parameter in learning:
                parameter.requires_grad_(False)
            self.model.eval()
        else:
            trainable, self.model.trainable = self.model.trainable, False
        try:
            yield
        finally:
            if self._torch:
                for parameter in learning:
                    parameter.requires_grad_(True)
                self.model.train(training)
            else:
                self.model.trainable = trainable
            apply_random(before)
