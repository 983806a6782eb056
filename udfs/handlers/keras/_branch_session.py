"""Training of the part of a Keras model that learns, on tensors of the part that does not."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras

from udfs.handlers._adapted_trainer import check_frozen
from udfs.handlers.keras._capture import output_structure
from udfs.handlers.keras._modes import unfused
from udfs.handlers.keras._session import KerasSession, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from udfs.training import BatchWeights, Rows, Trainer

__all__ = ["Branch", "BranchSession"]


class Branch(keras.Model):  # type: ignore[misc] # Keras is untyped
    """The part of a model above some of its layers, on the model's own variables.

    ``whole`` is functional or sequential, and compiled; what learns, and what adds to the loss, comes in its order.
    ``run`` is a function of tensors and ``training`` that returns the outputs of the model:
    :meth:`udfs.handlers.keras._model.KerasModel.branch`.
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
    """A session of Keras whose checkpoints have no frozen variables; see :class:`udfs.handlers.Adapted`."""

    def __init__(self, trainer: Trainer, placed: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(trainer, placed)
        # A network for each phase of the freezing schedule, and where it reads inputs; of the whole model None.
        self._parts: list[tuple[Any, frozenset[int] | None]] = []
        self._pixels: frozenset[int] | None = None
        self._changing: frozenset[int] = frozenset()
        self._frozen: str | None = None
        # Whether it began with weights of another configuration, or of an earlier run.
        self.adopted = False

    @property
    def learning(self) -> frozenset[int]:
        """Ids of the variables that the optimizer changes."""
        return frozenset(map(id, self.model.trainable_variables))

    @contextmanager
    def phase(self, epoch: int) -> Iterator[frozenset[int]]:
        """Freeze what does not learn in an epoch while a block runs, which gets the ids of the variables that do."""
        self._freezing.begin(epoch, self.model)
        try:
            yield self.learning
        finally:
            self._freezing.end()

    def open(
        self,
        branches: Sequence[tuple[Callable[..., list[Any]], Collection[int]] | None],
        moving: Collection[int],
        frozen: str,
    ) -> None:
        """Train a part of the model from now on, and keep only what of it changes.

        ``branches`` has an entry for each phase of the freezing schedule, or a single one: what a :class:`Branch` runs,
        and the places among what it reads where inputs of the model are, whose eight-bit pixels are scaled. ``None``
        where it begins at the inputs: the model itself trains. ``moving`` has the ids of the variables that training
        moves without a gradient. ``frozen`` is the hash of all that does not change, without which a checkpoint is of
        no use.
        """
        self._changing, self._frozen = self.learning.union(moving), frozen
        self._parts = [
            (self.model, None) if branch is None else (self._compiled(branch[0]), frozenset(branch[1]))
            for branch in branches
        ]
        self.follow(0)

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        """Begin from the checkpoint of another configuration."""
        super().adopt(state, optimizer=optimizer)
        self.adopted = True

    def follow(self, place: int) -> None:
        """Train the part of another phase from now on."""
        # A unit that is open would go on with another part's functions.
        self._freezing.end()
        self.network, self._pixels = self._parts[place]

    def load(self, saved: dict[str, Any]) -> None:
        """Take everything from a checkpoint's state."""
        super().load(saved)
        self.adopted = bool(saved.get("adopted"))

    def _compiled(self, run: Callable[..., list[Any]]) -> Branch:
        branch = Branch(self.model, run)
        with self._placed():
            branch.compile(optimizer=self.model.optimizer, loss=self._trainer.loss, jit_compile=False)
        return branch

    def saved_tensors(self) -> list[Any]:
        """List the variables that learn and those that move."""
        if self._frozen is None:
            return super().saved_tensors()
        return [variable for variable in self.model.variables if id(variable) in self._changing]

    def state(self) -> dict[str, Any]:
        """Collect what a checkpoint has."""
        told = {"adopted": self.adopted} if len(self._parts) > 1 else {}
        return {**super().state(), "frozen": self._frozen, **told}

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
