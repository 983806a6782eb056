"""Labelling of sorted partitions: all streams of a partition, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from optimizer.specialization import OTHER
from udfs.specialization._stream_labelling import OpenModels, StreamLabelling, StreamMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.specialization._spec import SpecializationSpec
    from udfs.specialization._stream_labelling import FrameLabel

__all__ = ["DIGEST", "ROW", "STREAM", "TIME", "PartitionLabelling", "label_arrays", "sort_keys"]


STREAM, TIME, DIGEST, ROW = "__stream", "__time", "__digest", "__row"
"""Columns beside those of the user: stream, order, hash of the content, and the user's columns packed into a struct."""


@dataclass(frozen=True, slots=True)
class PartitionLabelling:
    """Label the frames of a partition, which is sorted by stream, order and hash. Call it with ``mapInArrow``.

    Parameters
    ----------
    spec : SpecializationSpec
        Models and settings.
    keep : tuple of str
        Names of the columns that pass through, which are the first of the batches under any name.
    reads : tuple of tuple of str
        For each column that the models read, its name in the batches.
    """

    spec: SpecializationSpec
    keep: tuple[str, ...]
    reads: tuple[tuple[str, str], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run in one task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        models: OpenModels | None = None
        stream: str | None = None
        labelling: StreamLabelling | None = None
        names = [name for name, _ in self.reads]
        for batch in batches:
            if not batch.num_rows:
                continue
            if models is None:
                models = OpenModels(self.spec, context.cpus() if context else 1)
            streams = batch.column(STREAM).to_pylist()
            times, digests = sort_keys(batch)
            for start, end in _runs(streams):
                if labelling is None or streams[start] != stream:
                    stream = streams[start]
                    labelling = StreamLabelling(models, stream, StreamMemory())
                part = batch.slice(start, end - start)
                frames = pa.RecordBatch.from_arrays([part.column(column) for _, column in self.reads], names=names)
                labels = labelling.label(frames, times[start:end], digests[start:end])
                columns = [*part.columns[: len(self.keep)], *label_arrays(self.spec, labels)]
                yield pa.RecordBatch.from_arrays(columns, names=[*self.keep, *self.spec.columns])


def sort_keys(batch: pa.RecordBatch) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the order of each frame, NaN for a null, and the hash of its content."""
    times = pc.fill_null(batch.column(TIME), float("nan")).to_numpy(zero_copy_only=False)
    return times, batch.column(DIGEST).to_numpy(zero_copy_only=False)


def label_arrays(spec: SpecializationSpec, labels: Sequence[FrameLabel]) -> list[pa.Array]:
    """Return the new columns; an answer is null for a bad frame."""
    values = [None if label.label == OTHER else spec.labels[label.label] for label in labels]
    columns = (
        values,
        [label.model for label in labels],
        [label.phase for label in labels],
        [label.confidence for label in labels],
        [label.reason for label in labels],
    )
    return [pa.array(column, field.type) for column, field in zip(columns, spec.adds, strict=True)]


def _runs(streams: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last place, exclusive, of each run of one stream."""
    start = 0
    for place in range(1, len(streams) + 1):
        if place == len(streams) or streams[place] != streams[start]:
            yield start, place
            start = place
