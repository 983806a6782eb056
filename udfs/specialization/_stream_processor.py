"""Labelling of Structured Streaming's groups, with the memory of each stream in the state store."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from optimizer.specialization import SpecializationState
from udfs.specialization._expert_head import heads_from_bytes, heads_to_bytes
from udfs.specialization._partition_labelling import DIGEST, ROW, STREAM, TIME, label_arrays
from udfs.specialization._stream_labelling import FrameLabel, OpenModels, StreamLabelling, StreamMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import UserDefinedType

    from udfs.specialization._spec import SpecializationSpec

__all__ = ["StreamProcessor"]

_MEMORY = (
    "state string, heads binary, time double, answered string, "
    "reference binary, reference_label string, repetitions int"
)
_OPEN: dict[str, OpenModels] = {}  # models of the last query, which outlive a micro-batch


class StreamProcessor(StatefulProcessor):
    """Label the frames of streams as they arrive, for ``transformWithStateInPandas``.

    Parameters
    ----------
    spec : SpecializationSpec
        Models and settings.
    key : str
        Identity of the query's models.
    reads : tuple
        For each column that the models read: its name, its field in the packed rows, and its type.
    objects : tuple
        Fields of the packed rows with objects, such as vectors, and their types.
    """

    def __init__(
        self,
        spec: SpecializationSpec,
        key: str,
        reads: tuple[tuple[str, str, pa.DataType], ...],
        objects: tuple[tuple[str, UserDefinedType], ...] = (),
    ) -> None:
        self._spec, self._key, self._reads, self._objects = spec, key, reads, objects

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of the streams."""
        self._memory = handle.getValueState("memory", _MEMORY)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Label the new frames of one stream, sorted by their order."""
        del timerValues
        table = pd.concat(list(rows), ignore_index=True)
        table.columns = pd.Index([ROW, STREAM, TIME, DIGEST])  # Spark renames columns that begin with two underscores
        times, digests = table[TIME].to_numpy(np.float64), table[DIGEST].to_numpy(np.int64)
        order = np.lexsort((digests, times))  # NaN is last
        packed = [table[ROW][place] for place in order.tolist()]
        arrays = [pa.array([_plain(row[field]) for row in packed], kind) for _, field, kind in self._reads]
        frames = pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in self._reads])
        memory = self._load()
        labelling = StreamLabelling(self._models(), str(key[0]), memory)
        labels = labelling.label(frames, times[order], digests[order])
        self._store(memory)
        for field, kind in self._objects:
            # Spark 4.3 makes the object a dictionary in one direction and expects an object in the other.
            packed = [
                row | {field: kind.deserialize(tuple(row[field].values()))} if isinstance(row[field], dict) else row
                for row in packed
            ]
        columns = zip(self._spec.columns, label_arrays(self._spec, labels), strict=True)
        # Objects keep integers beside nulls, which pandas would make floats.
        yield pd.DataFrame(
            {ROW: packed} | {name: pd.Series(array.to_pylist(), dtype=object) for name, array in columns}
        )

    def close(self) -> None:
        """Keep the models for the next micro-batch."""

    def _models(self) -> OpenModels:
        if self._key not in _OPEN:
            context = TaskContext.get()
            _OPEN.clear()
            _OPEN[self._key] = OpenModels(self._spec, context.cpus() if context else 1)
        return _OPEN[self._key]

    def _load(self) -> StreamMemory:
        row = self._memory.get()
        if row is None:
            return StreamMemory()
        state, heads, time, answered, reference, label, repetitions = row
        known = {int(digest): FrameLabel(*values) for digest, values in json.loads(answered)}
        thumbnail = np.load(io.BytesIO(bytes(reference)), allow_pickle=False) if reference else None
        return StreamMemory(
            SpecializationState.from_json(state),
            heads_from_bytes(bytes(heads)),
            time,
            known,
            thumbnail,
            FrameLabel(*json.loads(label)) if label else None,
            repetitions,
        )

    def _store(self, memory: StreamMemory) -> None:
        reference = io.BytesIO()
        if memory.reference is not None:
            np.save(reference, memory.reference, allow_pickle=False)
        self._memory.update(
            (
                memory.state.to_json(),
                heads_to_bytes(memory.heads),
                memory.time,
                json.dumps(list(memory.answered.items())),
                reference.getvalue(),
                json.dumps(memory.reference_label) if memory.reference_label else "",
                memory.repetitions,
            )
        )


def _plain(value: Any) -> Any:
    """Return a struct as a dictionary: Spark 4.0 makes it a row."""
    return value.asDict(recursive=True) if isinstance(value, Row) else value
