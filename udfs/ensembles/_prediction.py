"""Predictions of an ensemble in Arrow batches: several networks, one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.arrow import VECTOR, NewColumns, to_lists
from udfs.inference import NetworkInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.ensembles._combination import Combination
    from udfs.inference import PortableNetwork
    from udfs.sequences import Windows
    from udfs.shards import TensorGroup
    from udfs.training import Task

    Run = Callable[[Sequence[NDArray[Any]]], tuple[NDArray[np.float32], ...]]

__all__ = ["EnsemblePrediction", "Member"]


@dataclass(frozen=True, slots=True)
class Member:
    """Network of an ensemble, the inputs that it reads, and the weight of its outputs.

    ``weight`` is that of all its ``choices`` together. With ``windows``, the inputs are windows that contain these.
    """

    network: PortableNetwork
    inputs: tuple[TensorGroup, ...]
    task: Task
    weight: float
    choices: int
    windows: Windows | None = None

    def read(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return what the network reads of the inputs."""
        return list(inputs) if self.windows is None else [self.windows.inputs_of(array) for array in inputs]


@dataclass(frozen=True, slots=True)
class EnsemblePrediction:
    """Combined outputs of the members for the columns that they read. A :class:`udfs.arrow.BatchFunction`.

    A row is bad where a value is null, an image cannot be read or a tensor has another size.
    """

    members: tuple[Member, ...]
    combination: Combination
    images: tuple[str, ...]  # columns that arrive as images
    outputs: tuple[str, str, str]  # columns to add: scores and probabilities, lists of float, and the prediction
    batch_size: int

    @property
    def groups(self) -> tuple[TensorGroup, ...]:
        """Inputs of all members, each once."""
        return tuple(dict.fromkeys(group for member in self.members for group in member.inputs))

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the members read, each once."""
        return tuple(column.name for column in NetworkInputs(self.groups, self.images).columns)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The columns of scores, probabilities and predictions."""
        scores, probabilities, prediction = self.outputs
        kind = VECTOR if self.combination.task.is_vector else pa.float64()
        return pa.field(scores, VECTOR), pa.field(probabilities, VECTOR), pa.field(prediction, kind)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the networks, once a process."""
        del threads
        return partial(self._predict, _opened(tuple(member.network for member in self.members)))

    def _predict(self, networks: Sequence[Run], batch: pa.RecordBatch) -> NewColumns:
        groups = self.groups
        arrays, reasons = NetworkInputs(groups, self.images).read(batch)
        valid = np.array([reason is None for reason in reasons], np.bool_)
        if not valid.any():
            return NewColumns.explained([pa.nulls(batch.num_rows, field.type) for field in self.adds], reasons)
        by_group = dict(zip(groups, arrays, strict=True))
        total = np.zeros((int(valid.sum()), self.combination.columns))
        votes = np.zeros_like(total)
        weight = sum(member.weight for member in self.members)
        choices = sum(member.choices for member in self.members)
        for member, run in zip(self.members, networks, strict=True):
            (first, *_) = run(member.read([by_group[group] for group in member.inputs]))
            outputs = first.reshape(len(first), -1)
            total += member.weight * self.combination.scores(member.task, outputs, choices)
            if self.combination.vote == "majority":
                votes += member.weight * self.combination.votes(member.task, outputs)
        total /= weight
        shares = votes / weight if self.combination.vote == "majority" else total
        scores = shares if self.combination.task.kind == "regression" else shares * choices
        predicted = self.combination.predictions(total)
        columns = [_lists(scores, valid), _lists(shares, valid), _column(predicted, valid)]
        return NewColumns.explained(columns, reasons)


@lru_cache(maxsize=1)
def _opened(networks: tuple[PortableNetwork, ...]) -> list[Run]:
    return [network.open() for network in networks]


def _lists(values: NDArray[np.float64], valid: NDArray[np.bool_]) -> pa.Array:
    return to_lists(values.astype(np.float32), valid)


def _column(values: NDArray[np.float64], valid: NDArray[np.bool_]) -> pa.Array:
    if values.ndim > 1:
        return _lists(values, valid)
    every = np.zeros(len(valid))
    every[valid] = values
    return pa.array(every, pa.float64(), mask=~valid)
