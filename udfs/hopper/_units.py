"""Units of an ordinary search: each trial trains on the shard by itself (Cerebro, section 3.4.2)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from udfs.hopper._messages import (
    EvaluatedMember,
    EvaluateReport,
    MemberFailure,
    TrainedMember,
    TrainReport,
    TrainUnit,
    UnitFailure,
)
from udfs.shards import ShardError
from udfs.training import row_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.hopper._messages import EvaluateUnit, Member
    from udfs.hopper._outcomes import Outcomes
    from udfs.hopper._sessions import Sessions
    from udfs.shards import Tensors

__all__ = ["Units"]


class Units:
    """Trains and evaluates the trials of a unit, one after the other.

    Parameters
    ----------
    seed : int
        Of the run.
    shard : callable
        Gives the rows of a split's partition.
    sessions : Sessions
    outcomes : Outcomes
    """

    def __init__(self, seed: int, shard: Callable[[str, int], Tensors], sessions: Sessions, outcomes: Outcomes) -> None:
        self._seed = seed
        self._shard = shard
        self._sessions = sessions
        self._outcomes = outcomes

    def run(self, unit: TrainUnit | EvaluateUnit) -> TrainReport | EvaluateReport | UnitFailure:
        """Run a unit, and say what came of it."""
        try:
            if isinstance(unit, TrainUnit):
                rows = self._shard("train", unit.partition)
                trained = tuple(self._train(unit, member, rows) for member in unit.members)
                return TrainReport(unit_id=unit.unit_id, members=trained)
            rows = self._shard("validation", unit.partition)
            evaluated = tuple(self._evaluate(member, rows) for member in unit.members)
            return EvaluateReport(unit_id=unit.unit_id, members=evaluated)
        except ShardError as error:
            # No trial's fault: the data are damaged.
            return UnitFailure(unit_id=unit.unit_id, reason="hop", traceback=str(error))

    def _train(self, unit: TrainUnit, member: Member, rows: Tensors) -> TrainedMember | MemberFailure:
        try:
            session, fetched = self._sessions.at(member)
            order = row_order(self._seed, member.trial_id, unit.epoch, unit.partition, rows.rows)
            begun = time.perf_counter()
            self._sessions.begin(member.trial_id)
            sums = session.train(rows, order, ends_epoch=unit.ends_epoch)
            seconds = time.perf_counter() - begun
            return self._outcomes.trained(unit, member, session, sums, fetched=fetched, seconds=seconds)
        except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
            return self._outcomes.failed(member, error)

    def _evaluate(self, member: Member, rows: Tensors) -> EvaluatedMember | MemberFailure:
        try:
            session, fetched = self._sessions.at(member)
            begun = time.perf_counter()
            sums = session.evaluate(rows)
            seconds = time.perf_counter() - begun
            return EvaluatedMember(trial_id=member.trial_id, seconds=seconds, fetched_bytes=fetched, sums=sums)
        except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
            return self._outcomes.failed(member, error)
