"""Arrow batches: one loop over them with a policy for bad rows, the model's batch size, and tensors in columns."""

from udfs.arrow._batches import rebatch, report_batch
from udfs.arrow._errors import RowError
from udfs.arrow._policy import ERROR_POLICIES, ErrorPolicy, RowPolicy
from udfs.arrow._rows import BatchFunction, NewColumns, RowMap
from udfs.arrow._tensors import VECTOR, TensorError, from_binary, nbytes, ragged_from_binary, to_binary, to_lists

__all__ = [
    "ERROR_POLICIES",
    "VECTOR",
    "BatchFunction",
    "ErrorPolicy",
    "NewColumns",
    "RowError",
    "RowMap",
    "RowPolicy",
    "TensorError",
    "from_binary",
    "nbytes",
    "ragged_from_binary",
    "rebatch",
    "report_batch",
    "to_binary",
    "to_lists",
]
