"""Stack: sessions of one architecture that train as one batched model where this is faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from udfs.stacking._decision import StackDecision
from udfs.stacking._measured_unit import MeasuredUnit, outcome_of
from udfs.stacking._reasons import unstackable_reason
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.training import Rows, Session

    Outcome = dict[str, NDArray[np.float64]] | Exception

__all__ = ["Stack"]

# Decisions of this process by architecture and number of models.
_DECISIONS: dict[tuple[str, int], StackDecision] = {}


class Stack:
    """Sessions of one architecture that train as one batched model where this is faster than one by one.

    Weights, buffers and the optimizers' states are stacked (``torch.func.stack_module_state``), and a step of all
    models is one batched forward and backward pass (``torch.func.vmap``). Each model keeps its learning rate, schedule,
    row order, random numbers and state: after :meth:`train` its session is, within the tolerance of the arithmetic,
    where training it alone leads.

    With ``mode="auto"`` the first steps of an architecture and a number of models are taken both ways in each process,
    and the faster way is chosen for the rest. Sessions train one by one if the losses of both ways differ or an
    operation has no batched form; :attr:`decision` has the times and the reason.

    Parameters
    ----------
    sessions : sequence of Session
        Sessions for which :func:`unstackable_reason` is ``None``.
    mode : {"auto", "always"}
        ``"always"`` trains as a stack without measurement, and raises its errors. Default ``"auto"``.

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

    def __init__(self, sessions: Sequence[Session], *, mode: Literal["auto", "always"] = "auto") -> None:
        reason = unstackable_reason(sessions)
        if reason is not None:
            raise TrainerError(f"sessions must be stackable, got others: {reason}. Train each alone.")
        self._sessions: list[Any] = list(sessions)
        self._mode = mode

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Sessions of the stack, in order."""
        return tuple(self._sessions)

    @property
    def decision(self) -> StackDecision:
        """Times and choice of this process for the architecture and the number of sessions."""
        from udfs.stacking.torch import architecture_key  # a large package

        key = (architecture_key(self._sessions[0]), len(self._sessions))
        return _DECISIONS.setdefault(key, StackDecision(len(self._sessions)))

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
            Contributions to the loss of each session, as :meth:`udfs.training.Session.train` returns them, or its
            error, such as :class:`udfs.training.Diverged`.
        """
        if self._mode == "always" or len(self._sessions) == 1:
            from udfs.stacking.torch import train_together  # a large package

            return train_together(self._sessions, rows, orders, ends_epoch=ends_epoch)[0]
        return MeasuredUnit(self._sessions, self.decision, rows, orders).run(ends_epoch=ends_epoch)

    def evaluate(self, rows: Sequence[Rows]) -> list[Outcome]:
        """Compute loss and metrics of all sessions.

        Parameters
        ----------
        rows : sequence of Rows
            Rows of each session; the same object for all, or one for each.

        Returns
        -------
        list of dict or Exception
            Sums of each session, as :meth:`udfs.training.Session.evaluate` returns them, or its error.
        """
        from udfs.stacking.torch import evaluate_together  # a large package

        if self._mode == "auto" and self.decision.refusal:
            return [outcome_of(session.evaluate, part) for session, part in zip(self._sessions, rows, strict=True)]
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
