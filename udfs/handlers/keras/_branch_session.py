"""Training of the part of a Keras model that learns, on tensors of the part that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from udfs.handlers._adapted import check_frozen
from udfs.handlers.keras._capture import output_structure
from udfs.handlers.keras._modes import unfused
from udfs.handlers.keras._session import KerasSession, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from udfs.handlers import Rows, Trainer
    from udfs.training import BatchWeights

__all__ = ["Branch", "BranchSession"]


class Branch(keras.Model):  # type: ignore[misc] # Keras is untyped
    """The part of a model above some of its layers, on the model's own variables.

    Parameters
    ----------
    whole : keras.Model
        Functional or sequential, and compiled. What learns, and what adds to the loss, comes in its order.
    run : callable
        From tensors, and ``training``, to the model's outputs: :meth:`udfs.handlers.keras._model.KerasModel.branch`.
    """

    def __init__(self, whole: Any, run: Callable[..., list[Any]]) -> None:
        # The layers convert what they read, each to a type of its own.
        super().__init__(name="branch", autocast=False)
        self.whole = whole
        self._run = run
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Compute the outputs."""
        outputs = self._run(keras.tree.flatten(inputs), training=training)
        return keras.tree.pack_sequence_as(output_structure(self.whole), outputs)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: Any = True
    ) -> Any:
        """Compute the whole model's loss, which knows its outputs by their names."""
        return self.whole.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)


class BranchSession(KerasSession):
    """A session of Keras whose checkpoints have no frozen variables; see :class:`udfs.handlers.Adapted`.

    Parameters
    ----------
    trainer : Trainer
    placed : callable
        As for :class:`KerasSession`.
    """

    def __init__(self, trainer: Trainer, placed: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(trainer, placed)
        self._pixels: frozenset[int] | None = None
        self._changing: frozenset[int] = frozenset()
        self._frozen: str | None = None

    @property
    def learning(self) -> frozenset[int]:
        """Ids of the variables that the optimizer changes."""
        return frozenset(map(id, self.model.trainable_variables))

    def open(self, moving: Collection[int], frozen: str) -> None:
        """Keep only what of the model changes from now on.

        Parameters
        ----------
        moving : collection of int
            Ids of the variables that training moves without a gradient.
        frozen : str
            Hash of all that does not change, without which a checkpoint is of no use.
        """
        self._changing, self._frozen = self.learning.union(moving), frozen

    def train_branch(self, run: Callable[..., list[Any]], pixels: Collection[int]) -> None:
        """Train a part of the model from now on.

        Parameters
        ----------
        run : callable
            As for :class:`Branch`.
        pixels : collection of int
            Places among what the part reads where inputs of the model are, whose eight-bit pixels are scaled.
        """
        branch = Branch(self.model, run)
        with self._placed():
            branch.compile(optimizer=self.model.optimizer, loss=self._trainer.loss, jit_compile=False)
        self.network, self._pixels = branch, frozenset(pixels)

    def held(self) -> list[Any]:
        """List the variables that learn and those that move."""
        if self._frozen is None:
            return super().held()
        return [variable for variable in self.model.variables if id(variable) in self._changing]

    def state(self) -> dict[str, Any]:
        """Collect what a checkpoint has."""
        return {**super().state(), "frozen": self._frozen}

    def opened(self, state: bytes) -> dict[str, Any]:
        """Open a checkpoint that was made over the same frozen variables."""
        saved = super().opened(state)
        check_frozen(self._frozen, saved)
        return saved

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Convert inputs to what the part itself takes."""
        if self._pixels is None:
            return super().read(inputs)
        return [scaled(array) if place in self._pixels else array for place, array in enumerate(inputs)]

    def step(self, inputs: tuple[NDArray[Any], ...], labels: tuple[NDArray[Any], ...], weights: BatchWeights) -> None:
        """Take one step."""
        with unfused():
            super().step(inputs, labels, weights)

    def evaluate(self, data: Rows) -> dict[str, NDArray[np.float64]]:
        """Compute the loss and the metrics over a shard."""
        with unfused():
            return super().evaluate(data)

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Run the part in inference mode."""
        with unfused():
            return super().predict(inputs)
