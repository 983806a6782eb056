"""Weights of the rows of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.training._errors import TrainerError
from udfs.training._session import BatchWeights

if TYPE_CHECKING:
    from udfs.training._session import Rows

__all__ = ["batch_weights"]


def batch_weights(data: Rows, picked: Any, rows: int) -> BatchWeights:
    r"""Take the weights of a batch's rows, so that its loss is their weighted mean.

    With the loss :math:`l_i` of a row and its weight :math:`w_i`, the loss of a batch is

    .. math:: L = \sum_i w_i l_i \Big/ \sum_i w_i

    as ``reduction="mean_with_sample_weight"`` has it in Keras, and as ``weight=`` has it for the classes in
    ``torch.nn.CrossEntropyLoss``. Keras's default, ``"sum_over_batch_size"``, divides by the number of rows; with
    weights relative to their mean in the batch it gives the same.

    Parameters
    ----------
    data : Rows
        Rows of the shard.
    picked : array of int or slice
        Rows of the batch.
    rows : int
        Number of rows of the batch.

    Raises
    ------
    TrainerError
        A weight is not positive: rows without weight are left out when data are prepared.

    Examples
    --------
    >>> from udfs.shards import Tensors
    >>> data = Tensors((np.zeros((3, 1)),), (np.zeros(3),), 3, np.array([1, 3, 3], np.float32))
    >>> weights = batch_weights(data, slice(0, 2), 2)
    >>> weights.total, weights.relative.tolist()
    (4.0, [0.5, 1.5])
    >>> batch_weights(data, slice(1, 3), 2).relative is None
    True
    """
    if data.weights is None:
        return BatchWeights(float(rows))
    weights = data.weights[picked]
    least = weights.min()
    if not least > 0:
        raise TrainerError(f"a row has the weight {least}: leave rows without weight out, and give others more than 0")
    exact = weights.astype(np.float64)
    total = float(exact.sum())
    if least == weights.max():
        return BatchWeights(total, weights)
    return BatchWeights(total, weights, (exact * (rows / total)).astype(np.float32))
