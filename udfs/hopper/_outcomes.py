"""Outcomes of a unit for each of its trials: a checkpoint on its way to the store, or a described failure."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from udfs.hopper._checkpoints import Record
from udfs.hopper._messages import JointUnit, MemberFailure, TrainedMember, UnitFailure
from udfs.metrics import merge_sums
from udfs.rpc import CallError, Held, digest_of
from udfs.shards import ShardError
from udfs.training import Diverged

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from udfs.hopper._messages import Member, TrainUnit, WorkUnit
    from udfs.hopper._sessions import Sessions
    from udfs.hopper._states import States
    from udfs.hopper._uploads import Uploads
    from udfs.training import Session

__all__ = ["Outcomes", "reason_of"]

# Texts of an allocator's errors; torch has no class for them on a CPU.
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


class Outcomes:
    """Reports of a worker about each trial.

    Parameters
    ----------
    interrupted : callable
        Whether Spark has ended the task.
    """

    def __init__(self, sessions: Sessions, states: States, uploads: Uploads, interrupted: Callable[[], bool]) -> None:
        self._sessions = sessions
        self._states = states
        self._uploads = uploads
        self._interrupted = interrupted

    def trained(
        self,
        unit: TrainUnit,
        member: Member,
        session: Session,
        sums: dict[str, NDArray[np.float64]],
        *,
        fetched: int,
        seconds: float,
        **shares: float,
    ) -> TrainedMember:
        """Take the checkpoint of a trial that has trained on the unit's shard.

        Its `shares` are those of :class:`MemberReport`, of what a group's unit does for all. A joint unit has visited
        the shards of all its ranks.
        """
        assert member.record is not None  # the driver's units of training have one
        state = session.checkpoint()
        partitions = sorted(sum(unit.shares, ())) if isinstance(unit, JointUnit) else [unit.partition]
        version, digest = member.version + len(partitions), digest_of(state)
        self._sessions.finish(member.trial_id, digest)
        visits = (*member.record.visits, *((unit.epoch, partition) for partition in partitions))
        merged = {name: part.tolist() for name, part in merge_sums(member.record.arrays(), sums).items()}
        record = Record(member.trial_id, version, digest, visits, merged)
        self._states.put(member.trial_id, version, Held(state, digest), record)
        if member.stores or self._states.full:
            self._uploads.submit(record, state)
        return TrainedMember(
            trial_id=member.trial_id,
            seconds=seconds,
            fetched_bytes=fetched,
            sums=sums,
            digest=digest,
            checkpoint_bytes=len(state),
            inherited=str(getattr(session, "inherited", "")),
            **shares,
        )

    def failed(self, member: Member, error: BaseException) -> MemberFailure:
        """Describe the failure of a unit for a trial; call it where the error is handled.

        Raises
        ------
        BaseException
            The error again, where Spark has ended the task.
        """
        if isinstance(error, CallError):
            # Not the trial's fault: the peer that had its checkpoint is gone.
            return MemberFailure(trial_id=member.trial_id, reason="hop", traceback=str(error))
        self._sessions.discard(member.trial_id)
        self._raise_if_ended(error)
        return MemberFailure(trial_id=member.trial_id, reason=reason_of(error), traceback=traceback.format_exc())

    def unit_failed(self, unit: WorkUnit, error: BaseException) -> UnitFailure:
        """Describe the failure of a unit for all its trials; call it where the error is handled.

        Raises
        ------
        BaseException
            The error again, where Spark has ended the task.
        """
        if isinstance(error, ShardError):
            # No trial's fault: the data are damaged.
            return UnitFailure(unit_id=unit.unit_id, reason="hop", traceback=str(error))
        for member in unit.members:
            self._sessions.discard(member.trial_id)
        self._raise_if_ended(error)
        return UnitFailure(unit_id=unit.unit_id, reason=reason_of(error), traceback=traceback.format_exc())

    def _raise_if_ended(self, error: BaseException) -> None:
        if isinstance(error, (KeyboardInterrupt, SystemExit)) and self._interrupted():
            raise error


def reason_of(error: BaseException) -> str:
    """Classify an error of a trial: a diverged loss, too little memory, or any other."""
    if isinstance(error, Diverged):
        return "diverged"
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return "out of memory"
    return "raised"
