"""Stack: sessions of one architecture that train as one batched model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.stacking._reasons import unstackable_reason
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.training import Rows, Session

    Outcome = dict[str, NDArray[np.float64]] | Exception

__all__ = ["Stack"]


class Stack:
    """Sessions of one architecture that train as one batched model.

    Weights, buffers and the optimizers' states are stacked (``torch.func.stack_module_state``), and a step of all
    models is one batched forward and backward pass (``torch.func.vmap``). Each model keeps its learning rate, schedule,
    row order, random numbers and state: after :meth:`train` its session is, within the tolerance of the arithmetic,
    where training it alone leads.

    Parameters
    ----------
    sessions : sequence of Session
        Sessions for which :func:`unstackable_reason` is ``None``.

    Raises
    ------
    TrainerError
        The sessions cannot be stacked; the message has the reason.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from udfs.handlers import ModelTrainer, open_session
    >>> from udfs.shards import Tensors
    >>> def trainer_fn(params):
    ...     net = torch.nn.Linear(3, 1)
    ...     optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    ...     return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.MSELoss())
    >>> stack = Stack([open_session(trainer_fn, {"lr": rate}, 0) for rate in (0.1, 0.2)])
    >>> rows = Tensors((np.ones((8, 3), np.float32),), (np.ones(8, np.float32),), 8)
    >>> sums = stack.train([rows] * 2, [np.arange(8)] * 2, ends_epoch=True)
    >>> [part["loss"].shape for part in sums]
    [(2,), (2,)]
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        reason = unstackable_reason(sessions)
        if reason is not None:
            raise TrainerError(
                f"sessions must be of one stackable architecture, got others: {reason}. Train each alone."
            )
        self._sessions: list[Any] = list(sessions)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Sessions of the stack, in order."""
        return tuple(self._sessions)

    def train(self, rows: Sequence[Rows], orders: Sequence[NDArray[np.int64]], *, ends_epoch: bool) -> list[Outcome]:
        """Run one training unit of each session.

        Parameters
        ----------
        rows : sequence of Rows
            Rows of each session; the same object for all, or one for each.
        orders : sequence of array of int
            Order in which each session reads its rows.
        ends_epoch : bool
            Whether this was the last shard of an epoch.

        Returns
        -------
        list of dict or Exception
            Contributions to the loss of each session, as :meth:`udfs.training.Session.train` returns them, or
            :class:`udfs.training.Diverged`.
        """
        from udfs.stacking.torch import train_together  # a large package

        return train_together(self._sessions, rows, orders, ends_epoch=ends_epoch)

    def evaluate(self, rows: Rows) -> list[Outcome]:
        """Compute loss and metrics of all sessions over the same rows.

        Returns
        -------
        list of dict or Exception
            Sums of each session, as :meth:`udfs.training.Session.evaluate` returns them, or its error.
        """
        from udfs.stacking.torch import evaluate_together  # a large package

        return evaluate_together(self._sessions, rows)

    def remove(self, index: int) -> Session:
        """Take a session out of the stack; its state is that after the last :meth:`train`.

        Parameters
        ----------
        index : int
            Place of the session in :attr:`sessions`.
        """
        session: Session = self._sessions.pop(index)
        return session
