"""Training unit of sessions of one architecture whose first steps measure both ways to train them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.metrics import merge_sums
from udfs.stacking._clock import step_clock
from udfs.stacking._reasons import unstackable_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.stacking._decision import StackDecision
    from udfs.training import Rows

    Outcome = dict[str, NDArray[np.float64]] | Exception

__all__ = ["MeasuredUnit", "outcome_of"]

# Steps of a round of measurement.
_STEPS = 2

# Relative difference of losses that the order of operations in single precision explains.
_TOLERANCE = 1e-3


def outcome_of(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result of a function, or its error."""
    try:
        return function(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - of the user's model or loss, and of one session alone
        return error


class MeasuredUnit:
    """Training of sessions on a shard, as a stack or one by one.

    Parameters
    ----------
    sessions : sequence of TorchSession
        Sessions of one architecture.
    decision : StackDecision
        Decision of the process, which gets the measurements.
    rows, orders : sequence
        Rows of each session and the order in which it reads them.
    """

    def __init__(
        self,
        sessions: Sequence[Any],
        decision: StackDecision,
        rows: Sequence[Rows],
        orders: Sequence[NDArray[np.int64]],
    ) -> None:
        self._sessions, self._decision = sessions, decision
        self._rows, self._orders = rows, orders
        self._size = sessions[0].trainer.batch_size
        self._outcomes: list[Outcome] = [{} for _ in sessions]
        self._clock = step_clock(sessions[0])

    def run(self, *, ends_epoch: bool) -> list[Outcome]:
        """Train all sessions, and return their sums or errors."""
        decision, position = self._decision, 0
        shortest = min(map(len, self._orders))
        while decision.is_open and shortest - position >= self._size:
            steps = min(1 if decision.is_first_round else _STEPS, (shortest - position) // self._size)
            position = self._measure(position, steps)
        rest = -(-(max(map(len, self._orders)) - position) // self._size)
        if decision.is_stacked(rest):
            self._merge(self._train_stack(slice(position, None), ends_epoch=ends_epoch)[0])
        else:
            self._merge(self._train_alone(slice(position, None), ends_epoch=ends_epoch))
        return self._outcomes

    @property
    def _alive(self) -> list[int]:
        return [place for place, outcome in enumerate(self._outcomes) if not isinstance(outcome, Exception)]

    def _measure(self, position: int, steps: int) -> int:
        """Take some steps both ways, record the times and return the next position; those taken alone count."""
        part = slice(position, position + steps * self._size)
        alive = self._alive
        if len(alive) < len(self._sessions):
            self._decision.refusal = "a loss is not a number any more"
            return position
        states = [session.checkpoint() for session in self._sessions]
        begun = self._clock()
        try:
            together, seconds = self._train_stack(part, ends_epoch=False)
        except Exception as error:  # noqa: BLE001 - of an operation without a batched form
            text, _, _ = str(error).strip().partition("\n")
            self._decision.refusal = f"{type(error).__name__}: {text}"
            return position
        setup = self._clock() - begun - seconds
        for session, state in zip(self._sessions, states, strict=True):
            session.restore(state)
        self._train_alone(slice(0, 0), ends_epoch=False)
        begun = self._clock()
        self._train_alone(slice(0, 0), ends_epoch=False)
        overhead = self._clock() - begun
        begun = self._clock()
        alone = self._train_alone(part, ends_epoch=False)
        spent = self._clock() - begun - overhead
        self._merge(alone)
        # A step may have changed an attribute, of which a stack has no copy for each model.
        refusal = unstackable_reason(self._sessions)
        if refusal is None and not all(map(_agree, alone, together)):
            refusal = "the losses of a stack are others than those of each model alone"
        if refusal is None:
            self._decision.record(alone=spent / steps, stacked=seconds / steps, setup=setup - overhead)
        self._decision.refusal = refusal or ""
        return position + steps * int(self._size)

    def _train_alone(self, part: slice, *, ends_epoch: bool) -> list[Outcome]:
        outcomes = []
        for place in self._alive:
            train = partial(self._sessions[place].train, self._rows[place], self._orders[place][part])
            outcomes.append(outcome_of(train, ends_epoch=ends_epoch))
        return outcomes

    def _train_stack(self, part: slice, *, ends_epoch: bool) -> tuple[list[Outcome], float]:
        from udfs.stacking.torch import train_together  # a large package

        alive = self._alive
        return train_together(
            [self._sessions[place] for place in alive],
            [self._rows[place] for place in alive],
            [self._orders[place][part] for place in alive],
            ends_epoch=ends_epoch,
        )

    def _merge(self, outcomes: Sequence[Outcome]) -> None:
        for place, outcome in zip(self._alive, outcomes, strict=True):
            before = self._outcomes[place]
            if isinstance(outcome, Exception) or isinstance(before, Exception):
                self._outcomes[place] = outcome
            else:
                self._outcomes[place] = merge_sums(before, outcome)


def _agree(alone: Outcome, together: Outcome) -> bool:
    if isinstance(alone, Exception) or isinstance(together, Exception):
        return type(alone) is type(together)
    return bool(np.allclose(alone["loss"], together["loss"], rtol=_TOLERANCE, atol=_TOLERANCE))
