"""Training of several linear heads in a barrier stage: rows in, one row with all heads out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from udfs.gang import gang
from udfs.mlp._head_settings import HeadSettings
from udfs.mlp._rows import dense, stacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["HeadTraining"]


@dataclass(frozen=True, slots=True)
class HeadTraining(HeadSettings):
    """Training of a linear head per attribute by the tasks of a barrier stage. Call it with ``mapInArrow``.

    The input has lists of features and lists of classes, one per head, -1 where a class is not known. Rows without
    finite features are left out. The output, of :attr:`schema`, has one row, from the first task: the stacked weights
    and biases as little-endian float32 bytes, and a report in JSON with ``losses``, ``rows`` and ``features``.
    """

    schema: ClassVar[str] = "weight binary, bias binary, report string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run in one task of a barrier stage."""
        import torch  # an optional extra

        from udfs.mlp.heads import fit_heads  # (imports torch)

        context = TaskContext.get()
        torch.set_num_threads(context.cpus() if context else 1)
        features, labels = self._read(batches)
        weight, bias = b"", b""
        report: dict[str, object] = {"rows": 0, "features": 0, "losses": []}
        with gang() as tasks:
            shapes = [json.loads(text) for text in tasks.all_gather(json.dumps(features.shape).encode())]
            counts, width = [rows for rows, _ in shapes], max(size for _, size in shapes)
            if sum(counts):
                features = features if len(features) else np.empty((0, width), np.float32)
                fitted = fit_heads(tasks, features, labels, self, counts)
                weight, bias = fitted.weight.tobytes(), fitted.bias.tobytes()
                report = {"rows": sum(counts), "features": width, "losses": fitted.losses}
        if tasks.rank == 0:
            row = {"weight": [weight], "bias": [bias], "report": [json.dumps(report)]}
            types = {"weight": pa.binary(), "bias": pa.binary(), "report": pa.string()}
            yield pa.RecordBatch.from_pydict({name: pa.array(values, types[name]) for name, values in row.items()})

    def _read(self, batches: Iterable[pa.RecordBatch]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        features, labels = [], [np.empty((0, len(self.classes)), np.int64)]
        for batch in batches:
            matrix, valid, _ = dense(batch.column(0))
            if len(matrix):
                flat = batch.column(1).flatten().to_numpy(zero_copy_only=False).astype(np.int64)
                features.append(matrix)
                labels.append(flat.reshape(batch.num_rows, -1)[valid])
        return stacked(features), np.concatenate(labels)
