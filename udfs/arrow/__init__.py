"""Arrow batches: regrouped to the model's batch size, and tensors in their columns."""

from udfs.arrow._batches import Named, rebatch
from udfs.arrow._tensors import TensorError, from_binary, nbytes, several_from_binary, to_binary, to_lists

__all__ = [
    "Named",
    "TensorError",
    "from_binary",
    "nbytes",
    "rebatch",
    "several_from_binary",
    "to_binary",
    "to_lists",
]
