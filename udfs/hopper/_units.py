"""Units of an ordinary search: each trial trains on the shard by itself (Cerebro, section 3.4.2)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from udfs.hopper._messages import (
    EvaluatedMember,
    EvaluateReport,
    TrainReport,
    TrainUnit,
)
from udfs.shards import ShardError
from udfs.training import TrainerError, random_stream, row_order, view_of, viewed_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from udfs.hopper._messages import EvaluateUnit, Member, MemberFailure, TrainedMember, UnitFailure
    from udfs.hopper._outcomes import Outcomes
    from udfs.hopper._sessions import Sessions
    from udfs.shards import Tensors
    from udfs.training import Folds

__all__ = ["Units"]


class Units:
    """Training and evaluation of the trials of a unit, one after the other.

    Parameters
    ----------
    shard : callable
        Gives the rows of a split's partition.
    one_order : bool
        Whether all trials read the rows of a shard in the same order. Default: each in its own.
    folds : Folds, optional
        Folds of the rows; each trial leaves one out. By default trials train on all rows.
    """

    def __init__(
        self,
        seed: int,
        shard: Callable[[str, int], Tensors],
        sessions: Sessions,
        outcomes: Outcomes,
        *,
        one_order: bool = False,
        folds: Folds | None = None,
    ) -> None:
        self.seed = seed
        self._shard = shard
        self._sessions = sessions
        self._outcomes = outcomes
        self._one_order = one_order
        self._folds = folds
        self._fold_numbers: dict[int, NDArray[np.int64]] = {}

    def run(self, unit: TrainUnit | EvaluateUnit, *, fetched: int = 0) -> TrainReport | EvaluateReport | UnitFailure:
        """Run a unit, and say what came of it.

        Parameters
        ----------
        fetched : int
            Bytes that were fetched before for each of its trials. Default 0.
        """
        try:
            if isinstance(unit, TrainUnit):
                rows = self._shard("train", unit.partition)
                trained = tuple(self.train(unit, member, rows, fetched) for member in unit.members)
                return TrainReport(unit_id=unit.unit_id, members=trained)
            rows = self._shard("validation", unit.partition)
            evaluated = tuple(self.evaluate(member, rows, fetched) for member in unit.members)
            return EvaluateReport(unit_id=unit.unit_id, members=evaluated)
        except ShardError as error:
            return self._outcomes.unit_failed(unit, error)

    def order(self, unit: TrainUnit, member: Member, seen: Tensors, rows: Tensors) -> NDArray[np.int64]:
        """Return the order in which a trial reads the rows of the unit's shard.

        Parameters
        ----------
        seen : Tensors
            Rows as the trial's view shows them.
        rows : Tensors
            Rows of the shard.
        """
        name = "" if self._one_order else random_stream(member.trial_id, member.params)
        order = row_order(self.seed, name, unit.epoch, unit.partition, seen.rows)
        if self._folds is None:
            return order
        _check_rows(seen, rows)
        return self._folds.training_order(order, self._numbers(unit.partition, rows), member.params)

    def train(self, unit: TrainUnit, member: Member, rows: Tensors, fetched: int) -> TrainedMember | MemberFailure:
        """Train a trial alone."""
        try:
            session, nbytes = self._sessions.at(member)
            seen = viewed_rows(view_of(session), rows)
            order = self.order(unit, member, seen, rows)
            begun = time.perf_counter()
            self._sessions.begin(member.trial_id)
            with self._sessions.settings(member.trial_id):
                if member.epoch_metric is not None:
                    session.follow_metric(member.epoch_metric)
                sums = session.train(seen, order, ends_epoch=unit.ends_epoch)
            seconds = time.perf_counter() - begun
            return self._outcomes.trained(unit, member, session, sums, fetched=fetched + nbytes, seconds=seconds)
        except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
            return self._outcomes.failed(member, error)

    def _numbers(self, partition: int, rows: Tensors) -> NDArray[np.int64]:
        """Return the fold of each row of a shard, computed once."""
        assert self._folds is not None
        if partition not in self._fold_numbers:
            self._fold_numbers[partition] = self._folds.assign(rows.inputs)
        return self._fold_numbers[partition]

    def evaluate(self, member: Member, rows: Tensors, fetched: int) -> EvaluatedMember | MemberFailure:
        """Evaluate a trial alone."""
        try:
            session, nbytes = self._sessions.at(member)
            begun = time.perf_counter()
            with self._sessions.settings(member.trial_id):
                sums = session.evaluate(viewed_rows(view_of(session), rows))
            seconds = time.perf_counter() - begun
            return EvaluatedMember(trial_id=member.trial_id, seconds=seconds, fetched_bytes=fetched + nbytes, sums=sums)
        except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
            return self._outcomes.failed(member, error)


def _check_rows(seen: Tensors, rows: Tensors) -> None:
    """Refuse folds of rows that a view puts together: a held-out row would be trained on as a part of others."""
    if seen.rows != rows.rows:
        raise TrainerError(
            f"view must keep the rows of the data in a run with folds, got {rows.rows:,} rows as {seen.rows:,}. Leave "
            "the view out of trainer_fn"
        )
