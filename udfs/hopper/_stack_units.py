"""Units of several trials of one architecture, which train as a stack where this is faster than one by one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udfs.hopper._messages import EvaluatedMember, EvaluateReport, TrainReport, TrainUnit
from udfs.stacking import Stack, unstackable_reason
from udfs.training import view_of, viewed_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.hopper._messages import EvaluateUnit, Member, MemberFailure, TrainedMember, UnitFailure
    from udfs.hopper._outcomes import Outcomes
    from udfs.hopper._sessions import Sessions
    from udfs.hopper._units import Units
    from udfs.shards import Tensors
    from udfs.training import Session

    Reported = TrainedMember | EvaluatedMember | MemberFailure

__all__ = ["StackUnits"]


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    """A trial of the unit at its checkpoint, and the bytes that were fetched for it."""

    member: Member
    session: Session
    fetched: int


class StackUnits:
    """Joint training and evaluation of the trials of a unit.

    Parameters
    ----------
    units : Units
        Trains and evaluates trials one by one.
    shard : callable
        Function that returns the rows of a split's partition.
    """

    def __init__(
        self, units: Units, shard: Callable[[str, int], Tensors], sessions: Sessions, outcomes: Outcomes
    ) -> None:
        self._units = units
        self._shard = shard
        self._sessions = sessions
        self._outcomes = outcomes

    def run(self, unit: TrainUnit | EvaluateUnit) -> TrainReport | EvaluateReport | UnitFailure:
        """Run a unit, and return its report."""
        if len(unit.members) == 1:
            return self._units.run(unit)
        try:
            trains = isinstance(unit, TrainUnit)
            rows = self._shard("train" if trains else "validation", unit.partition)
            reports: dict[str, Any] = {}
            opened = self._opened(unit, reports)
            stack = self._stack(opened)
            if stack is None:
                for each in opened:
                    reports[each.member.trial_id] = self._alone(unit, each, rows)
            else:
                reports |= self._together(unit, opened, stack, rows)
            members = tuple(reports[member.trial_id] for member in unit.members)
            report = TrainReport if trains else EvaluateReport
            return report(unit_id=unit.unit_id, members=members)
        except BaseException as error:  # noqa: BLE001 - of the user's code, or of reading the shard
            return self._outcomes.unit_failed(unit, error)

    def _opened(self, unit: TrainUnit | EvaluateUnit, reports: dict[str, Any]) -> list[_Open]:
        """Restore the trials from their checkpoints."""
        opened = []
        for member in unit.members:
            try:
                session, fetched = self._sessions.at(member)
                opened.append(_Open(member, session, fetched))
            except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
                reports[member.trial_id] = self._outcomes.failed(member, error)
        return opened

    def _stack(self, opened: Sequence[_Open]) -> Stack | None:
        sessions = [each.session for each in opened]
        if unstackable_reason(sessions) is not None:
            return None
        return (
            Stack(sessions) if self._sessions.have_equal_settings([each.member.trial_id for each in opened]) else None
        )

    def _alone(self, unit: TrainUnit | EvaluateUnit, each: _Open, rows: Tensors) -> Reported:
        if isinstance(unit, TrainUnit):
            return self._units.train(unit, each.member, rows, each.fetched)
        return self._units.evaluate(each.member, rows, each.fetched)

    def _together(
        self, unit: TrainUnit | EvaluateUnit, opened: Sequence[_Open], stack: Stack, rows: Tensors
    ) -> dict[str, Reported]:
        # Sessions of a stack have the same view of the rows.
        seen = viewed_rows(view_of(opened[0].session), rows)
        begun, was_open = time.perf_counter(), stack.decision.is_open
        with self._sessions.settings(opened[0].member.trial_id):
            if isinstance(unit, TrainUnit):
                for each in opened:
                    self._sessions.begin(each.member.trial_id)
                    if each.member.epoch_metric is not None:
                        each.session.follow_metric(each.member.epoch_metric)
                orders = [self._units.order(unit, each.member, seen, rows) for each in opened]
                outcomes = stack.train([seen] * len(opened), orders, ends_epoch=unit.ends_epoch)
            else:
                outcomes = stack.evaluate([seen] * len(opened))
        seconds = (time.perf_counter() - begun) / len(opened)
        if was_open and not stack.decision.is_open:
            print(stack.decision.explain())  # noqa: T201 - to the log of the trial
        return {
            each.member.trial_id: self._report(unit, each, outcome, seconds)
            for each, outcome in zip(opened, outcomes, strict=True)
        }

    def _report(
        self,
        unit: TrainUnit | EvaluateUnit,
        each: _Open,
        outcome: dict[str, NDArray[np.float64]] | Exception,
        seconds: float,
    ) -> Reported:
        member = each.member
        try:
            if isinstance(outcome, Exception):
                raise outcome  # noqa: TRY301 - for its traceback
            if isinstance(unit, TrainUnit):
                return self._outcomes.trained(
                    unit, member, each.session, outcome, fetched=each.fetched, seconds=seconds
                )
            return EvaluatedMember(trial_id=member.trial_id, seconds=seconds, fetched_bytes=each.fetched, sums=outcome)
        except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
            return self._outcomes.failed(member, error)
