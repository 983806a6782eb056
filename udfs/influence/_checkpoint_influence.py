"""Influence of training rows on other rows, added up over checkpoints (TracIn)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optimizer.errors import InvalidArgumentError
from udfs.arrow import NewColumns
from udfs.handlers import framework_of, open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.inference import NetworkInputs
    from udfs.shards import PreparedData

__all__ = ["CheckpointInfluence", "Checkpoints", "gradients_of"]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A configuration, and the states that it passed through.

    ``states`` are functions that read a state from the store, in the order of the epochs.
    """

    trainer_fn: Callable[[dict[str, Any]], Any]
    params: Mapping[str, Any]
    seed: int
    prepared: PreparedData
    states: tuple[Callable[[], bytes], ...]

    def open(self) -> Any:
        """Build the configuration's network, in the session of its framework."""
        return open_session(self.trainer_fn, self.params, self.seed, data=self.prepared)


def gradients_of(session: Any) -> Any:
    """Return the module that computes the gradients of rows for the framework of a session's network.

    Raises
    ------
    InvalidArgumentError
        The framework is another than torch, and than Keras on TensorFlow.
    """
    backend = framework_of(session.model)
    name = "an unknown framework" if backend is None else backend.name
    if name == "torch":
        from udfs.handlers import torch

        return torch
    if name == "keras":
        from udfs.handlers.keras import gradients

        gradients.check_backend()
        return gradients
    raise InvalidArgumentError(
        f"selection must have a network of torch or Keras for influences, got one of {name}. Train it in one of these"
    )


@dataclass(frozen=True, slots=True)
class CheckpointInfluence:
    """Influence of each row on some targets. A :class:`udfs.arrow.BatchFunction`.

    The influence of a row on a target is the sum over the checkpoints of the learning rate times the dot product of the
    gradients of both rows' losses (TracInCP). A row is bad where a feature or the label is null or cannot be read.
    """

    checkpoints: Checkpoints
    layers: tuple[str, ...]
    inputs: NetworkInputs  # of the features, and last of the label
    targets: tuple[NDArray[Any], ...]  # the same of the targets, each of shape (targets, ...)
    output: str  # column to add, list<double>: the influence on each target
    self_output: str  # column to add, double: the influence on itself
    batch_size: int = field(default=256)

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the features and of the label, each once."""
        return tuple(column.name for column in self.inputs.columns)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The columns of influences."""
        return (pa.field(self.output, pa.list_(pa.float64())), pa.field(self.self_output, pa.float64()))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Build the network and compute the gradients of the targets, once a process."""
        del threads
        session = self.checkpoints.open()
        gradients = gradients_of(session)
        *inputs, labels = self.targets
        states = [read() for read in self.checkpoints.states]
        known = []
        for state in states:
            session.restore(state)
            known.append(
                (gradients.learning_rate(session), gradients.row_gradients(session, inputs, labels, self.layers))
            )
        return partial(self._influence, session, states, known)

    def _influence(
        self, session: Any, states: Sequence[bytes], known: Sequence[tuple[float, Any]], batch: pa.RecordBatch
    ) -> NewColumns:
        arrays, reasons = self.inputs.read(batch)
        valid = np.array([reason is None for reason in reasons], np.bool_)
        rows = int(valid.sum())
        total, selves = np.zeros((rows, len(self.targets[0]))), np.zeros(rows)
        if rows:
            compute = gradients_of(session).row_gradients
            *inputs, labels = arrays
            for state, (rate, targets) in zip(states, known, strict=True):
                session.restore(state)
                gradients = compute(session, inputs, labels, self.layers)
                total += rate * gradients.dot(targets)
                selves += rate * gradients.squared_norms()
        values: list[list[float] | None] = [None] * batch.num_rows
        self_values: list[float | None] = [None] * batch.num_rows
        for place, row, mine in zip(np.flatnonzero(valid).tolist(), total.tolist(), selves.tolist(), strict=True):
            values[place], self_values[place] = row, mine
        columns = [pa.array(values, pa.list_(pa.float64())), pa.array(self_values, pa.float64())]
        return NewColumns.explained(columns, reasons)
