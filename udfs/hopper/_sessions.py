"""Models that a worker has open, and the checkpoints that they go on from."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING

from udfs.documents import DamagedError
from udfs.hopper._messages import HOPPER
from udfs.hopper._states import digest_of
from udfs.node import memory_limit, task_device
from udfs.rpc import Caller, CallError
from udfs.store import StoreError
from udfs.training import Session, initial_seed, open_session, training_bytes

if TYPE_CHECKING:
    from udfs.hopper._checkpoints import Checkpoints
    from udfs.hopper._messages import Member, SourceState
    from udfs.hopper._settings import WorkerSettings
    from udfs.hopper._states import States
    from udfs.rpc import Credentials

__all__ = ["Sessions"]

_FETCH_S = 600.0

# Sessions that stay open: building a model anew, and Keras's tracing, take longer than restoring its state.
_OPEN = 16

# For the digest of a session whose training was broken off.
_UNKNOWN = "?"


class Sessions:
    """The sessions of the trials that were here last, each at a checkpoint.

    A checkpoint is known by its digest: a trial that went back to an earlier one, and then on over other partitions,
    has another one of the same version.

    Parameters
    ----------
    worker : WorkerSettings
    states : States
        Checkpoints that this worker holds.
    checkpoints : Checkpoints
        Those in the store.
    credentials : Credentials
        The run's, for calls to other workers.
    """

    def __init__(
        self, worker: WorkerSettings, states: States, checkpoints: Checkpoints, credentials: Credentials
    ) -> None:
        self._worker = worker
        self._states = states
        self._checkpoints = checkpoints
        self._credentials = credentials
        self._device = task_device(worker.device)
        self._model_bytes = worker.memory_bytes or memory_limit()[0]
        self._open: OrderedDict[str, tuple[str, Session]] = OrderedDict()
        self._peers: dict[str, Caller] = {}

    def warm_up(self) -> None:
        """Build a model of some configuration, so that its framework is imported."""
        # A configuration that cannot be built says so when its turn comes.
        with suppress(Exception):
            open_session(self._worker.trainer_fn, self._worker.sample, 0, device=self._device)

    def at(self, member: Member) -> tuple[Session, int]:
        """Bring a trial's session to the checkpoint that a unit starts from.

        Returns
        -------
        tuple of Session and int
            And the bytes that were fetched for it.

        Raises
        ------
        CallError
            Neither the peer nor the store gives the checkpoint.
        MemoryError
            The model is larger than this worker's memory.
        """
        have, session = self._open.get(member.trial_id, (_UNKNOWN, None))
        fetched = 0
        if session is None or (not member.version and have != _first(member)):
            seed = initial_seed(self._worker.seed, member.trial_id)
            weighted = self._worker.prepared.weights is not None
            session = open_session(self._worker.trainer_fn, member.params, seed, device=self._device, weighted=weighted)
            self._check_size(session)
            have = ""
            if member.source is not None:
                fetched = self._adopt(session, member.source)
        if member.version and have != member.digest:
            state = self._states.get(f"{member.trial_id}/{member.version}")
            if state is None or digest_of(state) != member.digest:
                state = self._fetch(member)
                fetched = len(state)
            session.restore(state)
        self._open[member.trial_id] = (member.digest if member.version else _first(member), session)
        self._open.move_to_end(member.trial_id)
        while len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return session, fetched

    def begin(self, trial_id: str) -> None:
        """Note that a trial trains: should it break off half way, its session is at no checkpoint any more."""
        self._open[trial_id] = (_UNKNOWN, self._open[trial_id][1])

    def finish(self, trial_id: str, digest: str) -> None:
        """Note the checkpoint that a trial has been trained to."""
        self._open[trial_id] = (digest, self._open[trial_id][1])

    def discard(self, trial_id: str) -> None:
        """Forget a trial's session."""
        self._open.pop(trial_id, None)

    def close(self) -> None:
        """Close the connections to other workers."""
        for peer in self._peers.values():
            peer.close()

    def _check_size(self, session: Session) -> None:
        """Refuse a model before the kernel ends this process for it: the driver has looked at the first one only."""
        needed = training_bytes(session)
        if needed > self._model_bytes:
            raise MemoryError(
                f"the model has {session.weight_bytes:,} bytes of weights, and training it takes about {needed:,}, "
                f"more than the {self._model_bytes:,} of this worker"
            )

    def _adopt(self, session: Session, source: SourceState) -> int:
        """Have a new session adopt the state of a clone's source; give the bytes that were read for it."""
        held = self._states.get(f"{source.trial_id}/{source.version}")
        if held is not None and digest_of(held) == source.digest:
            session.adopt(held)
            return 0
        state = self._read(source.trial_id, source.version, source.digest)
        session.adopt(state)
        return len(state)

    def _read(self, trial_id: str, version: int, digest: str) -> bytes:
        try:
            return self._checkpoints.read(trial_id, version, digest)
        except (DamagedError, StoreError) as error:
            raise CallError(
                f"the store does not give the checkpoint of {trial_id} at version {version}: {error}"
            ) from error

    def _fetch(self, member: Member) -> bytes:
        """Get a checkpoint from the worker that trained last, or from the store."""
        if member.peer:
            if member.peer not in self._peers:
                self._peers[member.peer] = Caller(member.peer, self._credentials, HOPPER)
            state = self._peers[member.peer].fetch(f"{member.trial_id}/{member.version}", timeout_s=_FETCH_S)
        else:
            state = self._read(member.trial_id, member.version, member.digest)
        if digest_of(state) != member.digest:
            source = member.peer or "the store"
            raise CallError(f"the checkpoint of {member.trial_id} at version {member.version} from {source} is damaged")
        return state


def _first(member: Member) -> str:
    """Name what a session is at before the first unit: a clone is at its source's checkpoint, others at no one's."""
    return "" if member.source is None else f"adopted {member.source.digest}"
