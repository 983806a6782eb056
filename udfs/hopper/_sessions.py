"""Open models of a worker, and the checkpoints that they continue from."""

from __future__ import annotations

import gc
from collections import OrderedDict
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udfs.documents import DamagedError
from udfs.handlers import (
    apply_settings,
    changed_settings,
    check_metric_mode,
    open_adapted,
    open_session,
    settings_kept,
    take_settings,
    training_bytes,
)
from udfs.hopper._checkpoints import Checkpoints
from udfs.hopper._messages import HOPPER
from udfs.node import memory_limit, return_freed_memory, task_device
from udfs.packing import StateError
from udfs.rpc import Caller, CallError
from udfs.shards import load_sample
from udfs.store import StoreError
from udfs.training import follow_task, initial_seed, random_stream, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from udfs.handlers import Adapted
    from udfs.hopper._messages import Member, SourceState
    from udfs.hopper._settings import WorkerSettings
    from udfs.hopper._states import States
    from udfs.rpc import Credentials
    from udfs.training import Rows, Session

    Allocator = Callable[[int], memoryview]

__all__ = ["Sessions"]

_FETCH_S = 600.0

# Sessions that stay open: building a model anew, and Keras's tracing, take longer than restoring its state.
_OPEN = 16

# For the digest of a session whose training was broken off.
_UNKNOWN = "?"


@dataclass(slots=True)
class _Open:
    """A session, the checkpoint that it is at, and the bytes that it takes for itself.

    ``settings`` are the settings of the process that the user's function changed.
    """

    session: Session
    adapted: Adapted | None
    nbytes: int
    settings: dict[str, dict[str, Any]]
    at: str = ""


class Sessions:
    """The sessions of the trials that were here last, each at a checkpoint.

    A checkpoint is known by its digest: a trial that went back to an earlier one, and then on over other partitions,
    has another one of the same version.
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
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._kept: frozenset[str] = frozenset()
        self._peers: dict[str, Caller] = {}

    def warm_up(self) -> None:
        """Build a model of some configuration, so that its framework is imported."""
        # A configuration that cannot be built says so when its turn comes.
        with suppress(Exception):
            self._built(self._worker.sample, 0)

    def keep(self, trial_ids: Collection[str]) -> None:
        """Keep the sessions of some trials open, those that train together now, and of no others."""
        self._kept = frozenset(trial_ids)

    def at(self, member: Member) -> tuple[Session, int]:
        """Restore the session of a trial from a unit's checkpoint; return it, and the bytes that were fetched for it.

        Raises
        ------
        CallError
            Neither the peer nor the store gives the checkpoint.
        MemoryError
            The model is larger than this worker's memory.
        """
        opened = self._open.get(member.trial_id)
        fetched = 0
        if opened is None or (not member.version and opened.at != _first(member)):
            stream = random_stream(member.trial_id, member.params)
            opened = self._built(member.params, initial_seed(self._worker.seed, stream))
            self._check_size(opened.session)
            if member.source is not None:
                fetched = self._adopt(opened.session, member.source)
            elif not member.version:
                fetched = self._warm(opened.session, member.params)
        if member.version and opened.at != member.digest:
            kept = self._states.get(f"{member.trial_id}/{member.version}")
            if kept is not None and kept.digest == member.digest:
                opened.session.restore(kept.content)
            else:
                state = self._fetch(member, _allocator(opened.session))
                fetched = len(state)
                opened.session.restore(state)
        opened.at = member.digest if member.version else _first(member)
        self._open[member.trial_id] = opened
        self._open.move_to_end(member.trial_id)
        self._make_room()
        return opened.session, fetched

    def adapted(self, trial_id: str) -> Adapted:
        """Return an open trial's model, in a run of adaptation."""
        adapted = self._open[trial_id].adapted
        assert adapted is not None  # all of them are
        return adapted

    def have_equal_settings(self, trial_ids: Sequence[str]) -> bool:
        """Return whether the functions of trials change the settings of the process in the same way."""
        first, *others = (self._open[trial_id].settings for trial_id in trial_ids)
        return all(each == first for each in others)

    @contextmanager
    def settings(self, trial_id: str) -> Iterator[None]:
        """Apply the settings of the process that a trial's function changed, for a ``with`` block.

        Random numbers go on, unlike with :func:`udfs.handlers.settings_kept`: the session has its own.
        """
        changes = self._open[trial_id].settings
        if not changes:
            yield
            return
        before = take_settings()
        apply_settings(changes)
        try:
            yield
        finally:
            apply_settings(changed_settings(take_settings(), before))

    def begin(self, trial_id: str) -> None:
        """Mark a trial as in training: should it stop half way, its session is at no checkpoint any more."""
        self._open[trial_id].at = _UNKNOWN

    def finish(self, trial_id: str, digest: str) -> None:
        """Record the checkpoint that a trial has been trained to."""
        self._open[trial_id].at = digest

    def discard(self, trial_id: str) -> None:
        """Forget a trial's session."""
        self._open.pop(trial_id, None)

    def close(self) -> None:
        """Close the connections to other workers."""
        for peer in self._peers.values():
            peer.close()

    def _built(self, params: dict[str, Any], seed: int) -> _Open:
        """Open a configuration, and restore the settings that its function changes in the process."""
        before = take_settings()
        with settings_kept():
            apply_settings(self._worker.process)
            session, adapted, nbytes = self._opened(params, seed)
            return _Open(session, adapted, nbytes, changed_settings(before, take_settings()))

    def _opened(self, params: dict[str, Any], seed: int) -> tuple[Session, Adapted | None, int]:
        worker, settings = self._worker, self._worker.adaptation
        weighted = worker.prepared.weights is not None
        if settings is None:
            session = open_session(
                worker.trainer_fn, params, seed, device=self._device, weighted=weighted, data=worker.prepared
            )
            self._follow(session, lambda: load_sample(worker.prepared, view=view_of(session)))
            check_metric_mode(session, larger_is_better=worker.larger_is_better)
            return session, None, session.weight_bytes
        adapted = open_adapted(
            worker.trainer_fn,
            params,
            seed,
            inputs=settings.inputs,
            columns=settings.columns,
            device=self._device,
            weighted=weighted,
            data=worker.prepared,
        )
        self._follow(adapted.session, None)
        # The planner's prediction of a group's memory has no place for what opening it took.
        return_freed_memory()
        # Weights, gradients and what the optimizer keeps; frozen layers are the node's.
        check_metric_mode(adapted.session, larger_is_better=worker.larger_is_better)
        return adapted.session, adapted, (2 + adapted.slots) * adapted.session.weight_bytes

    def _follow(self, session: Session, sample: Callable[[], Rows] | None) -> None:
        """Set the task of a new session after that of the run's first configuration."""
        if self._worker.task is not None:
            follow_task(session, self._worker.task, sample)

    def _make_room(self) -> None:
        """Close the sessions that were used the longest ago; those of an adaptation by their bytes, being small."""
        settings = self._worker.adaptation
        if settings is None:
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
            # Files of models that are larger than memory, which fill the disk.
            idle = [name for name, each in self._open.items() if _allocator(each.session) is not None][:-1]
            for name in idle:
                del self._open[name]
            if idle:
                gc.collect()
            return
        limit = self._model_bytes // 4 if settings.session_bytes is None else settings.session_bytes
        total = sum(each.nbytes for each in self._open.values())
        for trial_id in [trial_id for trial_id in self._open if trial_id not in self._kept]:
            if total <= limit:
                return
            total -= self._open.pop(trial_id).nbytes

    def _check_size(self, session: Session) -> None:
        """Refuse a model before the kernel ends this process for it: the driver has looked at the first one only."""
        needed = training_bytes(session)
        if needed > self._model_bytes:
            raise MemoryError(
                f"the model has {session.weight_bytes:,} bytes of weights, and training it takes about {needed:,}, "
                f"more than the {self._model_bytes:,} of this worker"
            )

    def _adopt(self, session: Session, source: SourceState) -> int:
        """Load the state of a clone's source into a new session; return the number of bytes read."""
        take = session.inherit if source.weights_only else session.adopt
        kept = self._states.get(f"{source.trial_id}/{source.version}")
        if kept is not None and kept.digest == source.digest:
            take(kept.content)
            return 0
        state = _read(self._checkpoints, source.trial_id, source.version, source.digest, _allocator(session))
        take(state)
        return len(state)

    def _warm(self, session: Session, params: dict[str, Any]) -> int:
        """Load the weights of an earlier run into a new session, if that run had the same configuration."""
        settings = self._worker.adaptation
        start = None if settings is None else settings.warm.of(params)
        if settings is None or start is None:
            return 0
        checkpoints = Checkpoints(self._worker.prepared.store, settings.warm.run)
        state = _read(checkpoints, start.trial_id, start.version, start.digest)
        try:
            session.adopt(state, optimizer=False)
        except StateError as error:
            raise StateError(
                f"warm_start=True needs weights of the same model, and those of {start.trial_id} in run "
                f"{settings.warm.run!r} are of another model ({error}), because trainer_fn has changed. "
                "Set warm_start=False, or give the campaign another name"
            ) from error
        return len(state)

    def _fetch(self, member: Member, allocate: Allocator | None) -> bytes:
        """Get a checkpoint from the worker that trained last, or from the store."""
        if not member.peer:
            return _read(self._checkpoints, member.trial_id, member.version, member.digest, allocate)
        if member.peer not in self._peers:
            self._peers[member.peer] = Caller(member.peer, self._credentials, HOPPER)
        fetched = self._peers[member.peer].fetch_held(
            f"{member.trial_id}/{member.version}", timeout_s=_FETCH_S, allocate=allocate
        )
        if fetched.digest != member.digest:
            raise CallError(
                f"the checkpoint of {member.trial_id} at version {member.version} from {member.peer} is another one "
                "than the driver knows of"
            )
        return fetched.content


def _allocator(session: Session) -> Allocator | None:
    """Return the function that allocates a checkpoint in a file, of a session whose model is larger than memory."""
    return getattr(session, "checkpoint_buffer", None)


def _read(
    checkpoints: Checkpoints, trial_id: str, version: int, digest: str, allocate: Allocator | None = None
) -> bytes:
    try:
        return checkpoints.read(trial_id, version, digest, allocate)
    except (DamagedError, StoreError) as error:
        raise CallError(
            f"the store does not give the checkpoint of {trial_id} at version {version}: {error}"
        ) from error


def _first(member: Member) -> str:
    """Name what a session is at before the first unit: a clone is at its source's checkpoint, others at none here."""
    return "" if member.source is None else f"adopted {member.source.digest}"
