"""Trial of a training step on a few rows, which shows errors of a trainer before a worker starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from udfs.handlers._function_session import FunctionSession
from udfs.handlers._random import apply_random
from udfs.training import Diverged, TrainerError, batch_weights

if TYPE_CHECKING:
    from udfs.shards import Tensors
    from udfs.training import Session

__all__ = ["try_step"]


def try_step(session: Session, rows: Tensors) -> None:
    """Train a session on a few rows as in an epoch of two batches, and read the checkpoint that it writes.

    Do not use the session for training afterwards. A loss that is not a number is no error: a search reports such a
    configuration as diverged.

    Raises
    ------
    TrainerError
        Training changes an attribute that a checkpoint leaves out. All errors of the user's code pass too.
    """
    order = np.arange(rows.rows)
    marks = getattr(session, "attribute_marks", dict)
    before: dict[str, bytes] = marks()
    try:
        if isinstance(session, FunctionSession):
            session.train(rows, order, ends_epoch=True)
        else:
            apply_random(session.random)
            session.begin()
            # One batch of all rows, whatever the trainer's batch size is.
            for _ in range(2):
                session.step(rows.inputs, rows.labels, batch_weights(rows, order, rows.rows))
            session.end(ends_epoch=True)
            session.follow_metric(1.0)
    except Diverged:
        return
    changed = sorted(place for place, mark in marks().items() if before.get(place, mark) != mark)
    if changed:
        raise TrainerError(
            f"attributes that change as the model trains must be plain data, to travel between workers, got "
            f"{changed[0]}: make it a number, a list or a tensor, or keep it in a buffer or in get_extra_state"
        )
    session.restore(session.checkpoint())
