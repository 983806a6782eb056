"""Labelling of Structured Streaming's groups, with the memory of each stream in the state store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from optimizer.specialization import SpecializationState
from udfs.specialization._expert_head import heads_from_bytes, heads_to_bytes
from udfs.specialization._partition_labelling import DIGEST, TIME, label_arrays, sort_keys
from udfs.specialization._stream_labelling import FrameLabel, OpenModels, StreamLabelling, StreamMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from udfs.specialization._spec import SpecializationSpec

__all__ = ["StreamProcessor"]

_MEMORY = "state string, heads binary, time double, answered string"
_OPEN: dict[str, OpenModels] = {}  # models of the last query, which outlive a micro-batch


class StreamProcessor(StatefulProcessor):
    """Label the frames of streams as they arrive, for ``transformWithStateInPandas``.

    Parameters
    ----------
    spec : SpecializationSpec
        Models and settings.
    key : str
        Identity of the query's models.
    schema : bytes
        Arrow schema of the frames, serialised.
    keep, reads : tuple
        As for :class:`PartitionLabelling`.
    """

    def __init__(
        self,
        spec: SpecializationSpec,
        key: str,
        schema: bytes,
        keep: tuple[str, ...],
        reads: tuple[tuple[str, str], ...],
    ) -> None:
        self._spec, self._key, self._schema, self._keep, self._reads = spec, key, schema, keep, reads

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of the streams."""
        self._memory = handle.getValueState("memory", _MEMORY)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Label the new frames of one stream, sorted by their order."""
        del timerValues
        schema = pa.ipc.read_schema(pa.py_buffer(self._schema))
        tables = [_table(frame, schema) for frame in rows]
        table = pa.concat_tables(tables)
        table = table.sort_by([(TIME, "ascending"), (DIGEST, "ascending")])
        batch = table.combine_chunks().to_batches()[0]
        times, digests = sort_keys(batch)
        memory = self._load()
        labelling = StreamLabelling(self._models(), str(key[0]), memory)
        names = [name for name, _ in self._reads]
        frames = pa.RecordBatch.from_arrays([batch.column(column) for _, column in self._reads], names=names)
        labels = labelling.label(frames, times, digests)
        self._store(memory)
        columns = [*(batch.column(name) for name in self._keep), *label_arrays(self._spec, labels)]
        yield pa.Table.from_arrays(columns, names=[*self._keep, *self._spec.columns]).to_pandas()

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
        state, heads, time, answered = row
        known = {int(digest): FrameLabel(*label) for digest, label in json.loads(answered)}
        return StreamMemory(SpecializationState.from_json(state), heads_from_bytes(bytes(heads)), time, known)

    def _store(self, memory: StreamMemory) -> None:
        answered = json.dumps(list(memory.answered.items()))
        self._memory.update((memory.state.to_json(), heads_to_bytes(memory.heads), memory.time, answered))


def _table(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """Return a table of pandas's columns, in which structs are rows of Spark.

    Columns are taken by position: Spark renames those whose names are no identifiers of Python.
    """
    columns = []
    for place, kind in enumerate(schema.types):
        values: Any = frame.iloc[:, place]
        if pa.types.is_struct(kind):
            values = [None if row is None else row.asDict(recursive=True) for row in values]
        columns.append(pa.array(values, kind, from_pandas=True))
    return pa.Table.from_arrays(columns, schema=schema)
