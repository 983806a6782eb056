"""A training unit of a session that is trained batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.handlers._random import apply_random, take_random
from udfs.training import batch_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from udfs.training import Rows, Session

__all__ = ["train_in_steps"]


def train_in_steps(
    session: Session,
    data: Rows,
    order: NDArray[np.int64],
    batch_size: int,
    *,
    ends_epoch: bool,
    drop_last: bool = False,
) -> dict[str, NDArray[np.float64]]:
    """Train a session on a shard by its ``begin``, ``step`` and ``end``, with the random numbers that are its own.

    A framework's ``Session.train`` is this with the ``batch_size`` and ``drop_last`` of its trainer.

    Parameters
    ----------
    session : Session
        Session that trains.
    data : Rows
        Rows of the shard.
    order : array of int, shape (rows,)
        The order in which the rows are read.
    batch_size : int
        Rows per step; the last batch may be short.
    ends_epoch : bool
        Whether this was the last shard of an epoch.
    drop_last : bool
        Whether a short last batch is left out of training. Default false.

    Returns
    -------
    dict of str to array
        Contributions to the loss, as :func:`udfs.metrics.merge_sums` adds them up.

    Raises
    ------
    Diverged
        The loss is not a number any more.
    """
    apply_random(session.random)
    session.begin()
    for start in range(0, len(order) - (batch_size - 1 if drop_last else 0), batch_size):
        picked = order[start : start + batch_size]
        inputs = tuple(array[picked] for array in data.inputs)
        labels = tuple(array[picked] for array in data.labels)
        session.step(inputs, labels, batch_weights(data, picked, len(picked)))
    sums = session.end(ends_epoch=ends_epoch)
    session.random = take_random()
    return sums
