"""The one loop over Arrow batches: rows in, new columns out, with a policy for bad rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from udfs.arrow._batches import rebatch

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from udfs.arrow._policy import RowPolicy

__all__ = ["BatchFunction", "NewColumns", "RowMap"]


class NewColumns(NamedTuple):
    """The columns that a function adds to a batch.

    There is an array for each of :attr:`BatchFunction.adds`, with a null for each bad row. ``reasons`` say per row why
    it is bad, in a short phrase from a small fixed set; ``details`` what varies from one bad row to the next: a path, a
    size. ``columns_of`` names the column that each bad row is refused for, where the function knows it.
    """

    columns: Sequence[pa.Array]
    reasons: Sequence[str | None]
    details: Sequence[str | None] | None = None
    columns_of: Sequence[str | None] | None = None

    @classmethod
    def explained(cls, columns: Sequence[pa.Array], explanations: Sequence[str | None]) -> NewColumns:
        """Split what :class:`udfs.arrow.RowError` says of each bad row into its reason and its detail.

        An explanation is ``"reason"`` or ``"reason: detail"``; ``None`` for a good row.

        Examples
        --------
        >>> new = NewColumns.explained([], ["no such file: a.png", "null", None])
        >>> new.reasons, new.details
        (['no such file', 'null', None], ['a.png', None, None])
        """
        parts = [(None, None) if text is None else text.partition(": ")[::2] for text in explanations]
        return cls(columns, [reason for reason, _ in parts], [detail or None for _, detail in parts])


class BatchFunction(Protocol):
    """A function from some columns of a batch to new ones: a frozen value that Spark sends to its workers.

    Implement this for a new kind of model; :class:`RowMap` does the rest.
    """

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the batches that it is given, each once."""

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Names and types of the columns that it adds."""

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the model for the cores of the task; called once for each partition that has rows."""


@dataclass(frozen=True, slots=True)
class RowMap:
    """Map over the rows of a DataFrame: some columns pass through, a function adds others. Call it with ``mapInArrow``.

    Rows keep their order. Batches have the function's own size, formed across Spark's; the last one may be shorter. An
    empty partition opens no model. :func:`udfs.driver.map_rows` runs it over a DataFrame; a process that holds a model
    open can call it on batches of its own. Columns of ``keep`` pass through, in the order of the output; the new ones
    follow.

    Examples
    --------
    >>> from udfs.arrow import RowPolicy
    >>> from udfs.images import Preprocessing
    >>> from udfs.inference import HOGExtraction
    >>> rows = RowMap(HOGExtraction("image", "hog", size=64, batch_size=8), ("id",), RowPolicy("null", "image_error"))
    >>> batch = pa.RecordBatch.from_pydict({"id": [1], "image": [b"no image"]})
    >>> [(name, type(value).__name__) for name, value in next(rows([batch])).to_pylist()[0].items()]
    [('id', 'int'), ('hog', 'NoneType'), ('image_error', 'str')]
    """

    function: BatchFunction
    keep: tuple[str, ...]
    policy: RowPolicy

    @property
    def schema(self) -> tuple[pa.Field, ...]:
        """Fields of the output that follow those of ``keep``."""
        if not self.policy.writes_reasons:
            return self.function.adds
        names = (self.policy.error_column, self.policy.detail_column)
        return (*self.function.adds, *(pa.field(name, pa.string()) for name in names if name is not None))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one partition, which have the columns by name."""
        return self.run(batches, keep=self.keep, read=self.function.reads)

    def run(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        keep: Sequence[str | int],
        read: Sequence[str | int],
        bad: Counter[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one partition.

        ``keep`` and ``read`` are names or positions in the batches. ``bad`` counts bad rows by reason, without the
        details, whatever the policy; with the policy ``"raise"`` a bad row is a RowError.
        """
        names = [*self.keep, *(field.name for field in self.schema)]
        with _Opened(self, bad) as opened:
            for batch in rebatch(batches, self.function.batch_size):
                columns, reasons = opened([batch.column(place) for place in read])
                rows = pa.RecordBatch.from_arrays([*(batch.column(place) for place in keep), *columns], names=names)
                if self.policy.errors == "drop":
                    rows = rows.filter(pa.array(np.array([reason is None for reason in reasons], np.bool_)))
                yield rows

    def beside(
        self, batches: Iterable[pa.Array | tuple[pa.Array, ...]], read: Sequence[int]
    ) -> Iterator[pa.StructArray]:
        """Run over some columns of one partition, the others staying with Spark: as a scalar Arrow UDF.

        Batches have the function's own size, formed across Spark's, and follow one by one, so that Spark can stop after
        a few of them. A single column comes without a tuple; ``read`` has the positions of the columns that the
        function reads. Each struct has the fields of :attr:`schema` under the names ``r0``, ``r1``, ... Raise
        ValueError if the policy is not ``"null"``: others take whole rows.
        """
        if self.policy.errors != "null":
            raise ValueError(f"errors={self.policy.errors!r} takes whole rows")
        fields = [pa.field(f"r{place}", field.type) for place, field in enumerate(self.schema)]
        with _Opened(self, None) as opened:
            for batch in rebatch(map(_record_batch, batches), self.function.batch_size):
                columns, _ = opened([batch.column(place) for place in read])
                yield pa.StructArray.from_arrays(columns, fields=fields)


def _record_batch(columns: pa.Array | tuple[pa.Array, ...]) -> pa.RecordBatch:
    arrays = list(columns) if isinstance(columns, tuple) else [columns]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{place}" for place in range(len(arrays))])


class _Opened:
    """A function as it runs over a partition: opened at the first rows, which it counts."""

    def __init__(self, rows: RowMap, bad: Counter[str] | None) -> None:
        from pyspark import TaskContext  # who decodes images alone needs no Spark

        from udfs.node import worker_status  # imports pyspark

        self._status, self._has_begun = worker_status(), False
        context = TaskContext.get()
        self._threads, self._partition = (context.cpus(), context.partitionId()) if context else (1, 0)
        self._rows, self._bad = rows, bad
        self._step: Callable[[pa.RecordBatch], NewColumns] | None = None
        self._first_row = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_begun:
            self._status.end()

    def __call__(self, inputs: list[pa.Array]) -> tuple[list[pa.Array], Sequence[str | None]]:
        """Compute the new columns of some rows, those of reasons included, and the reason why each row is bad."""
        function, policy = self._rows.function, self._rows.policy
        if self._step is None:
            self._status.begin("inference")
            self._has_begun = True
            with self._status.phase("load"):
                self._step = function.open(self._threads)
        with self._status.phase("compute"):
            new = self._step(pa.RecordBatch.from_arrays(inputs, names=list(function.reads)))
        self._status.add_rows(len(new.reasons))
        if self._bad is not None:
            self._bad.update(reason.partition(":")[0] for reason in new.reasons if reason is not None)
        details = new.details or [None] * len(new.reasons)
        columns_of = new.columns_of or [None] * len(new.reasons)
        columns = [column or ", ".join(function.reads) for column in columns_of] if policy.errors == "raise" else ()
        policy.check(new.reasons, details, first_row=self._first_row, partition=self._partition, columns=columns)
        self._first_row += len(new.reasons)
        arrays = list(new.columns)
        if policy.writes_reasons:
            arrays.append(_texts(new.reasons))
            if policy.detail_column is not None:
                arrays.append(_texts(details))
        return arrays, new.reasons


def _texts(values: Sequence[str | None]) -> pa.Array:
    if any(value is not None for value in values):
        return pa.array(values, pa.string())
    # pa.array would import pandas, a fifth of a second in each worker.
    return pa.nulls(len(values), pa.string())
