"""Prediction of each row by the model of its group, or by that of the nearest group above."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.arrow import VECTOR, NewColumns, to_lists
from udfs.grouping._models import PackedModels
from udfs.handlers import framework, register_framework, registered_frameworks
from udfs.inference import NetworkInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.handlers import Framework
    from udfs.shards import TensorGroup

__all__ = ["RoutedPrediction"]

_NO_MODEL = "no model for the group"


@dataclass(frozen=True, slots=True)
class RoutedPrediction:
    """Outputs of the models of groups. A :class:`udfs.arrow.BatchFunction`.

    Parameters
    ----------
    urls : tuple of str
        Files of the packed models.
    framework : str
        Name of the framework of the networks.
    group_by : tuple of str
        Columns of the keys, for the names of the models.
    keys : tuple of str
        Columns with the keys of each level as JSON, null where a value of the key is null; level 1 first.
    inputs : tuple of TensorGroup
        Inputs of the networks.
    images : tuple of str
        Columns that arrive as images.
    output : str
        Column to add: outputs of the network.
    model : str
        Column to add: name of the model that answered, such as ``"state=CA"``; ``"global"`` for all rows.
    batch_size : int
        Rows of a batch.
    """

    urls: tuple[str, ...]
    framework: str
    group_by: tuple[str, ...]
    keys: tuple[str, ...]
    inputs: tuple[TensorGroup, ...]
    images: tuple[str, ...]
    output: str
    model: str
    batch_size: int
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks, compare=False, repr=False)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the key columns and of the columns that the networks read."""
        return (*self.keys, *(column.name for column in self._inputs.columns))

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Columns of the outputs and of the model's name."""
        return (pa.field(self.output, VECTOR), pa.field(self.model, pa.string()))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the packed models."""
        del threads
        register_framework(*self.registered)
        return partial(self._predict, _Networks(PackedModels(self.urls), framework(self.framework)))

    @property
    def _inputs(self) -> NetworkInputs:
        return NetworkInputs(self.inputs, self.images)

    def _predict(self, networks: _Networks, batch: pa.RecordBatch) -> NewColumns:
        names = self.reads[len(self.keys) :]
        columns = pa.RecordBatch.from_arrays([batch.column(name) for name in names], names=list(names))
        arrays, reasons = self._inputs.read(columns)
        answering = _answering([batch.column(name) for name in self.keys], networks.models)
        for row in np.flatnonzero(answering == "").tolist():
            reasons[row] = reasons[row] or _NO_MODEL
        valid = np.array([reason is None for reason in reasons], np.bool_)
        # The arrays have the rows that can be read; a row without a model is one of them.
        readable = np.array([reason in {None, _NO_MODEL} for reason in reasons], np.bool_)
        arrays = [array[valid[readable]] for array in arrays]
        keys = answering[valid]
        outputs: NDArray[np.float32] | None = None
        for key in np.unique(keys):
            rows = np.flatnonzero(keys == key)
            answers = networks.run(str(key), [array[rows] for array in arrays])
            if outputs is None:
                outputs = np.empty((len(keys), answers.shape[1]), np.float32)
            outputs[rows] = answers
        lists = pa.nulls(batch.num_rows, VECTOR) if outputs is None else to_lists(outputs, valid)
        answered = {key: self._name(key) for key in np.unique(keys).tolist()}
        shown = [answered.get(key) if good else None for key, good in zip(answering.tolist(), valid, strict=True)]
        return NewColumns.explained([lists, pa.array(shown, pa.string())], reasons)

    def _name(self, key: str) -> str:
        values = json.loads(key)
        return ", ".join(f"{name}={value}" for name, value in zip(self.group_by, values, strict=False)) or "global"


def _answering(keys: Sequence[pa.Array], models: PackedModels) -> NDArray[np.str_]:
    """Return for each row the key of the model that answers: the deepest level with a model, or ``""``."""
    answering = np.full(len(keys[0]), "[]" if "[]" in models.index else "", object)
    for column in keys:
        for row, key in enumerate(column.to_pylist()):
            if key in models.index:
                answering[row] = key
    return answering


class _Networks:
    """Networks of a process, one for each configuration, that take the weights of a group at a time."""

    def __init__(self, models: PackedModels, opener: Framework) -> None:
        self.models = models
        self._framework = opener
        self._open: dict[int, Any] = {}

    def run(self, key: str, inputs: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Run the network of a group on its rows; return its first output, of shape ``(rows, outputs)``."""
        configuration = self.models.index[key][0]
        if configuration not in self._open:
            self._open[configuration] = self._framework.open_reloadable(self.models.network(configuration))
        load, run = self._open[configuration]
        load(self.models.weights(key))
        (first, *_) = run(inputs)
        return np.ascontiguousarray(first.reshape(len(first), -1), np.float32)
