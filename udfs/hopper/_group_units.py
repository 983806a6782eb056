"""Units of fused groups: one read, one pass of the shared frozen layers, a step for each trial (Nautilus, section 4.3).

Each trial has its own optimizer, schedule, random numbers and checkpoint, and what it learns does not depend on who
trains beside it: the same features in the same order give the same bits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.adaptation import FeatureReader, Trunk, batches
from udfs.handlers import apply_random, take_random
from udfs.hopper._messages import EvaluatedMember, EvaluateReport, TrainReport, TrainUnit
from udfs.metrics import merge_sums
from udfs.shards import ShardError, Tensors
from udfs.training import TrainerError, row_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.adaptation import FeatureBatch, FeatureRows
    from udfs.handlers import Adapted
    from udfs.hopper._messages import EvaluateUnit, Member, MemberFailure, TrainedMember, UnitFailure
    from udfs.hopper._outcomes import Outcomes
    from udfs.hopper._sessions import Sessions
    from udfs.hopper._settings import WorkerSettings
    from udfs.hopper._units import Units
    from udfs.training import Session

__all__ = ["GroupUnits"]

# Of a member's report.
_SHARES = ("waited_seconds", "frozen_seconds", "read_seconds", "read_bytes", "remade")


@dataclass(slots=True, eq=False)
class _Branch:
    """A trial of the unit, open: what it reads, the seconds that it took, and its shares of what was done for all."""

    member: Member
    adapted: Adapted
    fetched: int
    feeds: tuple[str, ...]
    seconds: float = 0.0
    shares: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SHARES, 0.0))

    @property
    def session(self) -> Session:
        return self.adapted.session

    def inputs(self, known: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        if set(self.adapted.feeds) == set(self.adapted.graph.inputs):
            # The user's own forward runs it, and may work in place; others read the same rows.
            return tuple(known[feed].copy() for feed in self.feeds)
        return tuple(known[feed] for feed in self.feeds)


class GroupUnits:
    """Joint training and evaluation of the trials of a unit.

    Parameters
    ----------
    units : Units
        Train a model that could not be opened, on the shard itself.
    damaged : callable
        Told of a shard that cannot be read.
    memory_bytes : int
        For rows of the networks' inputs; more are mapped from the node's disk.
    """

    def __init__(
        self,
        worker: WorkerSettings,
        units: Units,
        sessions: Sessions,
        outcomes: Outcomes,
        damaged: Callable[[ShardError], None],
        *,
        memory_bytes: int,
    ) -> None:
        assert worker.adaptation is not None  # the caller looks
        self._seed = worker.seed
        self._units = units
        self._sessions = sessions
        self._outcomes = outcomes
        self._damaged = damaged
        self._augments = worker.adaptation.augmenter is not None
        self._reader = FeatureReader(
            worker.adaptation.features,
            worker.prepared,  # type: ignore[arg-type]  # growing data, as the settings say
            batch_size=worker.adaptation.batch_size,
            memory_bytes=memory_bytes,
            augmenter=worker.adaptation.augmenter,
        )

    def run(self, unit: TrainUnit | EvaluateUnit) -> TrainReport | EvaluateReport | UnitFailure:
        """Run a unit, and say what came of it."""
        try:
            failures: dict[str, MemberFailure] = {}
            branches = self._opened(unit, failures)
            drawn = self._augments and isinstance(unit, TrainUnit)
            if len(unit.members) == 1 and branches and branches[0].adapted.whole and not drawn:
                return self._units.run(unit, fetched=branches[0].fetched)
            if isinstance(unit, TrainUnit):
                trained = self._train(unit, branches, failures)
                members = tuple(trained.get(each.trial_id) or failures[each.trial_id] for each in unit.members)
                return TrainReport(unit_id=unit.unit_id, members=members)
            evaluated = self._evaluate(unit, branches, failures)
            return EvaluateReport(
                unit_id=unit.unit_id,
                members=tuple(evaluated.get(each.trial_id) or failures[each.trial_id] for each in unit.members),
            )
        except BaseException as error:  # noqa: BLE001 - of reading, or of the frozen layers
            if isinstance(error, ShardError):
                self._damaged(error)
            return self._outcomes.unit_failed(unit, error)

    def _opened(self, unit: TrainUnit | EvaluateUnit, failures: dict[str, MemberFailure]) -> list[_Branch]:
        """Restore the trials from their checkpoints."""
        self._sessions.keep({member.trial_id for member in unit.members})
        branches = []
        for member in unit.members:
            try:
                _, fetched = self._sessions.at(member)
                adapted = self._sessions.adapted(member.trial_id)
                adapted.follow(trained=not isinstance(unit, TrainUnit))
                feeds = tuple(adapted.graph.expression(name) for name in adapted.feeds)
            except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
                failures[member.trial_id] = self._outcomes.failed(member, error)
            else:
                branches.append(_Branch(member, adapted, fetched, feeds))
        return branches

    def _train(
        self, unit: TrainUnit, branches: Sequence[_Branch], failures: dict[str, MemberFailure]
    ) -> dict[str, TrainedMember]:
        alive = list(branches)

        def each(work: Callable[[_Branch], None]) -> None:
            for branch in tuple(alive):
                begun = time.perf_counter()
                try:
                    # The members before have drawn from the same generators.
                    apply_random(branch.session.random)
                    with self._sessions.settings(branch.member.trial_id):
                        work(branch)
                    branch.session.random = take_random()
                except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
                    failures[branch.member.trial_id] = self._outcomes.failed(branch.member, error)
                    alive.remove(branch)
                branch.seconds += time.perf_counter() - begun

        def begin(branch: _Branch) -> None:
            self._sessions.begin(branch.member.trial_id)
            if branch.member.epoch_metric is not None:
                branch.session.follow_metric(branch.member.epoch_metric)
            branch.session.begin()

        size = _batch_size(branches)

        def step(branch: _Branch, *, batch: FeatureBatch, known: Mapping[str, NDArray[Any]]) -> None:
            if batch.rows == size or not getattr(branch.adapted.trainer, "drop_last", False):
                branch.session.step(branch.inputs(known), batch.labels, batch.weights)

        each(begin)
        for batch, known in self._batches(unit, "train", alive, size):
            each(partial(step, batch=batch, known=known))
        sums: dict[str, dict[str, NDArray[np.float64]]] = {}

        def end(branch: _Branch) -> None:
            sums[branch.member.trial_id] = branch.session.end(ends_epoch=unit.ends_epoch)

        each(end)
        return {
            branch.member.trial_id: self._outcomes.trained(
                unit,
                branch.member,
                branch.session,
                sums[branch.member.trial_id],
                fetched=branch.fetched,
                seconds=branch.seconds,
                **branch.shares,
            )
            for branch in alive
        }

    def _evaluate(
        self, unit: EvaluateUnit, branches: Sequence[_Branch], failures: dict[str, MemberFailure]
    ) -> dict[str, EvaluatedMember]:
        alive = list(branches)
        sums: dict[str, dict[str, NDArray[np.float64]]] = {branch.member.trial_id: {} for branch in branches}
        for batch, known in self._batches(unit, "validation", alive, _batch_size(branches)):
            for branch in tuple(alive):
                begun = time.perf_counter()
                try:
                    rows = Tensors(branch.inputs(known), batch.labels, batch.rows, batch.weights.own)
                    trial_id = branch.member.trial_id
                    with self._sessions.settings(trial_id):
                        sums[trial_id] = merge_sums(sums[trial_id], branch.session.evaluate(rows))
                except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
                    failures[branch.member.trial_id] = self._outcomes.failed(branch.member, error)
                    alive.remove(branch)
                branch.seconds += time.perf_counter() - begun
        return {
            branch.member.trial_id: EvaluatedMember(
                trial_id=branch.member.trial_id,
                seconds=branch.seconds,
                fetched_bytes=branch.fetched,
                sums=sums[branch.member.trial_id],
                **branch.shares,
            )
            for branch in alive
        }

    def _batches(
        self, unit: TrainUnit | EvaluateUnit, split: str, alive: Sequence[_Branch], size: int
    ) -> Iterator[tuple[FeatureBatch, dict[str, NDArray[Any]]]]:
        """Read batch after batch and run the frozen layers once, until none of the trials goes on.

        Yields
        ------
        tuple of FeatureBatch and dict of str to array
            Values of all feeds of the trials, by expression.
        """
        if not alive:
            return
        begun = time.perf_counter()
        models = [branch.adapted for branch in alive]
        trunk = Trunk(models, unit.loads, list(dict.fromkeys(feed for branch in alive for feed in branch.feeds)))
        remade = self._reader.remade
        epoch = unit.epoch if isinstance(unit, TrainUnit) else None
        data = self._reader.rows(split, unit.partition, trunk.loads, models, epoch=epoch)
        remade = self._reader.remade - remade
        # Files that are opened for the first time are read to the end, and compared with their digests.
        opening = time.perf_counter() - begun
        order = self._order(unit, data)
        for batch in batches(data, order, size):
            waited = time.perf_counter() - begun
            known = trunk(batch.inputs)
            seconds = time.perf_counter() - begun
            nbytes = batch.rows * data.row_bytes
            done = (waited, seconds - waited, opening + batch.read_seconds, nbytes, remade)
            for branch in alive:
                branch.seconds += seconds / len(alive)
                for name, share in zip(_SHARES, done, strict=True):
                    branch.shares[name] += share / len(alive)
            yield batch, known
            opening = remade = 0
            if not alive:
                return
            begun = time.perf_counter()

    def _order(self, unit: TrainUnit | EvaluateUnit, data: FeatureRows) -> NDArray[np.int64]:
        if isinstance(unit, TrainUnit):
            return row_order(self._seed, "", unit.epoch, unit.partition, data.rows)
        return np.arange(data.rows)


def _batch_size(branches: Sequence[_Branch]) -> int:
    """Return the batch size, which the trials of a group have in common."""
    # Those that train whole shards alone have none, and say so at their first step.
    of_each = {branch.member.trial_id: getattr(branch.adapted.trainer, "batch_size", 1) for branch in branches}
    sizes = set(of_each.values())
    if len(sizes) > 1:
        names = ", ".join(f"{trial_id}: {size}" for trial_id, size in of_each.items())
        raise TrainerError(f"configurations of one batch size train together, and these have several: {names}")
    return sizes.pop() if sizes else 1
