"""Scoring of Arrow batches by a compiled pipeline in a Spark worker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optimizer.compiling import CompilingError, SparseRows
from udfs.arrow import NewColumns
from udfs.compiling._archive import from_bytes
from udfs.compiling._column_reader import Tables
from udfs.compiling._scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optimizer.compiling import Output

__all__ = ["PipelineScoring", "ScoringError"]


class ScoringError(CompilingError, ValueError):
    """Rows with another number of features than the compiled pipeline, whatever the policy."""


@dataclass(frozen=True, slots=True)
class PipelineScoring:
    """Results of a compiled pipeline for a batch of rows. A :class:`udfs.arrow.BatchFunction`.

    Numbers are computed as float32 where all that is read is float32, else as float64. A null in a column of numbers
    or inside a list is missing: NaN. A row is bad where its list is null, or where the model refuses a number in it.

    Raises
    ------
    ScoringError
        A list has another length than the program takes.
    """

    program: bytes
    tree_strategy: str  # options of optimizer.compiling.make_plan
    reads: tuple[str, ...]  # one column of lists, or columns of numbers and texts in the program's order
    lists: bool  # whether it is one column of lists
    columns: tuple[tuple[str, str], ...]  # output of the program and column to add, in their order
    batch_size: int = 8192  # rows per run of the program
    backend: str = "eager"
    rewrites: bool = True  # whether the program is rewritten for the type of the table
    names: tuple[str, ...] = ()  # names of the columns in messages; those of the program by default

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """A number, a text or a list of them per output; a list of arrays is one list, array after array."""
        outputs = from_bytes(self.program).outputs
        return tuple(pa.field(column, _type_of(outputs[name])) for name, column in self.columns)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the program."""
        if self.backend != "onnxruntime":
            import torch  # an optional extra

            torch.set_num_threads(threads)
        program = from_bytes(self.program)
        # Nothing is computed that is not asked for, as the numbers of leaves.
        asked = program.only(name for name, _ in self.columns) if self.columns else program
        scorer = Scorer(asked, self.tree_strategy, backend=self.backend, threads=threads, rewrites=self.rewrites)
        return partial(self._score, scorer)

    def _score(self, scorer: Scorer, batch: pa.RecordBatch) -> NewColumns:
        width = scorer.program.width
        if self.lists:
            table, present = _of_lists(batch.column(0), width)
            tables = Tables(table, ())
        else:
            tables, present = scorer.read(batch.columns), np.ones(batch.num_rows, np.bool_)
        answer = scorer.run(*tables)
        good = present.copy()
        good[present] = ~answer.bad
        reasons: list[str | None] = [None if there else "null" for there in present.tolist()]
        columns_of: list[str | None] = [None] * len(present)
        if answer.bad.any():
            refused = np.flatnonzero(answer.bad)
            rows = tables.numbers[refused], [_rows_of(given, refused) for given in tables.given]
            explained = scorer.explain_rows(*rows, scorer.program.outputs, self.names)
            for row, why in zip(np.flatnonzero(present)[refused].tolist(), explained, strict=True):
                reasons[row] = why.text or " or ".join(answer.reasons)
                columns_of[row] = ", ".join(why.columns) or None
        columns = []
        for name, _ in self.columns:
            values = answer.outputs[name]
            if isinstance(values, list):
                values = np.concatenate(values, axis=1)
            full = np.zeros((len(present), *values.shape[1:]), values.dtype)
            full[present] = values
            columns.append(_column(full, good, _type_of(scorer.program.outputs[name])))
        return NewColumns(columns, reasons, columns_of=columns_of)


def _rows_of(codes: NDArray[Any] | SparseRows, rows: NDArray[np.int64]) -> NDArray[Any] | SparseRows:
    """Return some rows of a table of the host."""
    if isinstance(codes, SparseRows):
        return codes.take(rows)
    return codes[rows]


def _type_of(output: Output) -> pa.DataType:
    item = pa.string() if output.texts else pa.float64()
    return item if output.flat else pa.list_(item)


def _column(values: NDArray[Any], good: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_list(kind):
        return pa.array(values.astype(str if kind == pa.string() else np.float64), type=kind, mask=~good)
    flat_values = values[good].reshape(-1).astype(str if kind.value_type == pa.string() else np.float64)
    flat = pa.array(flat_values, type=kind.value_type)
    ends = np.concatenate([[0], np.cumsum(good) * values.shape[1]]).astype(np.int32)
    offsets = pa.array(ends, mask=np.concatenate([~good, [False]]))
    return pa.ListArray.from_arrays(offsets, flat)


def _of_lists(column: pa.Array, width: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Convert the non-null lists of numbers to one table; a null in a list becomes NaN."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.min_max(pc.list_value_length(column)).as_py()
    if present.any() and (lengths["min"], lengths["max"]) != (width, width):
        raise ScoringError(
            f"rows must have {width} features, as the model was fitted on, got {lengths['min']} to {lengths['max']}."
        )
    dtype = np.float32 if column.type.value_type == pa.float32() else np.float64
    flat = column.flatten().to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    return flat.reshape(int(present.sum()), width), present
