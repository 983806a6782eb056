"""The long-lived task of a run: it asks the driver for units, trains them on its shards, and gives states to others.

Cerebro, section 3.4.2: the task executor and its side of a model hop; the calls go from the worker to the driver, so
that only the driver's address has to be known beforehand.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
import traceback
import uuid
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pyspark import TaskContext

from udfs.hopper._checkpoints import Checkpoints, Record
from udfs.hopper._states import States, digest_of
from udfs.hopper._wire import Caller, CallError, Endpoint, RefusedError, address_towards
from udfs.node import keep_freed_memory, memory_limit, task_device
from udfs.shards import PreparedData, Tensors, load_shard
from udfs.store import StoreError
from udfs.training import Diverged, Session, initial_seed, merge_sums, open_session, row_order, training_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["HopperWorker"]

_LOG = logging.getLogger(__name__)

_BEAT_S = 1.0
_CALL_S = 30.0
_FETCH_S = 600.0

# Seconds before another try to keep a state that the store would not take.
_RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0)

# Between threads of Python: a peer that fetches a state waits for as many turns of the training loop as it takes steps.
_SWITCH_S = 0.0005

# Sessions that stay open: building a model anew, and Keras's tracing, take longer than restoring its state.
_OPEN = 16

# What an allocator says that cannot give more; torch has no class of errors for it on a CPU.
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


@dataclass(frozen=True, slots=True)
class HopperWorker:
    """One worker of a run. Call it with ``mapInArrow`` on a single row, in a job of its own.

    Parameters
    ----------
    worker : str
        Name in the run; a later attempt of the same name takes its place.
    driver : str
        Location of the driver's endpoint.
    secret : bytes
        Of the run.
    run : str
        Its id.
    trainer_fn : callable
        The user's.
    sample : dict
        Params of some configuration, which the worker builds once before it asks for work: so that its framework is
        imported by then.
    prepared : PreparedData
    partitions : tuple of int
        That this worker keeps at first.
    seed : int
    threads : int
        Of one unit.
    memory_bytes : int or None
        For shards and for states, half each; beyond it shards are mapped from the node's disk. By default a share of
        what the machine has.
    device : str
    """

    worker: str
    driver: str
    secret: bytes
    run: str
    trainer_fn: Callable[[dict[str, Any]], Any]
    sample: dict[str, Any]
    prepared: PreparedData
    partitions: tuple[int, ...]
    seed: int
    threads: int
    memory_bytes: int | None = None
    device: str = "cpu"

    schema = "worker string, units long, seconds double, busy_seconds double, cpu_seconds double"
    """Columns: name, units trained or evaluated, seconds since the start, of those in units, and of the CPU since
    it was let in."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve until the run is over, and report one row."""
        for _ in batches:
            pass
        keep_freed_memory()
        _limit_threads(self.threads)
        sys.setswitchinterval(_SWITCH_S)
        with _Service(self) as service:
            service.serve()
        yield pa.RecordBatch.from_pydict(
            {
                "worker": [self.worker],
                "units": pa.array([service.units], pa.int64()),
                "seconds": [time.monotonic() - service.started],
                "busy_seconds": [service.busy],
                "cpu_seconds": [time.process_time() - service.cpu_before],
            }
        )


class _Service:
    """What a worker has open."""

    def __init__(self, worker: HopperWorker) -> None:
        self.started = time.monotonic()
        self.units = 0
        self.busy = 0.0
        self.cpu_before = 0.0
        self._worker = worker
        self._attempt = uuid.uuid4().hex
        self._task = TaskContext.get()
        limit = worker.memory_bytes or memory_limit()[0] // 4
        self._model_bytes = worker.memory_bytes or memory_limit()[0]
        self._shard_bytes = limit // 2
        self._states = States(limit // 2)
        self._checkpoints = Checkpoints(worker.prepared.store, worker.run)
        self._sessions: OrderedDict[str, tuple[int, Session]] = OrderedDict()
        self._shards: dict[tuple[str, int], Tensors] = {}
        self._peers: dict[str, Caller] = {}
        self._driver = Caller(worker.driver, worker.secret)
        self._host = address_towards(worker.driver)
        self._endpoint = Endpoint(self._host, worker.secret, held=self._states.get)
        # Of the one thread that writes: a caller is for one thread at a time.
        self._keeper = Caller(worker.driver, worker.secret)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._over = threading.Event()
        self._now: str | None = None
        self._device = task_device(worker.device)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._writer.shutdown(wait=False, cancel_futures=True)
        self._endpoint.shutdown()
        self._driver.close()
        self._keeper.close()
        for peer in self._peers.values():
            peer.close()

    def serve(self) -> None:
        for partition in self._worker.partitions:
            self._shard("train", partition)
            self._shard("validation", partition)
        # One that cannot be built says so when its turn comes.
        with suppress(Exception):
            open_session(self._worker.trainer_fn, self._worker.sample, 0, device=self._device)
        welcome = self._call(
            "hello",
            location=self._endpoint.location,
            host=socket.gethostname(),
            memory_bytes=memory_limit()[0],
            shard_bytes=min(self._shard_bytes, sum(map(_nbytes, self._shards.values()))),
        )
        if not welcome["welcome"]:
            return
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        self.cpu_before = time.process_time()
        report: dict[str, Any] | None = None
        while not self._ended():
            unit = self._call("next", report=report)
            report = None
            for config, version in unit.get("drop", []):
                self._states.drop(config, version)
            # Others took some while this one was not here, or are to have some from this epoch on.
            for key in [key for key in self._shards if key[1] not in unit.get("holds", ())]:
                del self._shards[key]
            if unit["do"] == "stop":
                return
            if unit["do"] != "wait":
                report = self._unit(unit)

    def _ended(self) -> bool:
        return self._task is not None and bool(getattr(self._task, "isInterrupted", bool)())

    def _call(self, method: str, **message: Any) -> dict[str, Any]:
        who = {"worker": self._worker.worker, "attempt": self._attempt}
        return self._driver.call(method, who | message, timeout_s=_CALL_S)

    def _beat(self) -> None:
        """Tell the driver that this process lives; end it where the driver has given up on what it does."""
        caller = Caller(self._worker.driver, self._worker.secret)
        who = {"worker": self._worker.worker, "attempt": self._attempt}
        while not self._over.wait(_BEAT_S):
            try:
                answer = caller.call("beat", who | {"unit": self._now}, timeout_s=_CALL_S)
            except (CallError, RefusedError):
                _LOG.exception("worker %s lost its driver", self._worker.worker)
                os._exit(3)
            if answer["abort"]:
                _LOG.error("worker %s ends: the driver gave up on unit %s", self._worker.worker, self._now)
                os._exit(4)

    def _unit(self, unit: dict[str, Any]) -> dict[str, Any]:
        config = unit["config"]
        self._now = unit["id"]
        began = time.time()
        report: dict[str, Any] = {"id": unit["id"], "began": began}
        try:
            session, report["fetched"] = self._session(unit)
            report["ready"] = time.time()
            report |= (self._train if unit["do"] == "train" else self._evaluate)(unit, session)
        except CallError as error:
            # Not the configuration's fault: the peer that had its state is gone.
            report |= {"failed": "hop", "traceback": str(error)}
        except BaseException as error:
            self._sessions.pop(config, None)
            report |= {"failed": _kind(error), "traceback": traceback.format_exc()}
            if isinstance(error, (KeyboardInterrupt, SystemExit)) and self._ended():
                raise
        self._now = None
        self.units += 1
        self.busy += time.time() - began
        return report | {"ended": time.time()}

    def _train(self, unit: dict[str, Any], session: Session) -> dict[str, Any]:
        config, epoch, partition, version = unit["config"], unit["epoch"], unit["partition"], unit["version"]
        data = self._shard("train", partition)
        order = row_order(self._worker.seed, config, epoch, partition, data.rows)
        begun = time.perf_counter()
        # Should it fail half way, the session is of no version any more.
        self._sessions[config] = (-1, session)
        sums = session.train(data, order, ends_epoch=unit["ends_epoch"])
        seconds = time.perf_counter() - begun
        state = session.checkpoint()
        version += 1
        self._sessions[config] = (version, session)
        digest = digest_of(state)
        self._states.put(config, version, state)
        before = Record.from_dict(unit["record"])
        trained = {name: part.tolist() for name, part in merge_sums(before.arrays(), sums).items()}
        record = Record(config, version, digest, (*before.visits, (epoch, partition)), trained)
        self._writer.submit(self._keep, record, state)
        return {
            "seconds": seconds,
            "rows": data.rows,
            "sums": sums,
            "digest": digest,
            "state_bytes": len(state),
        }

    def _evaluate(self, unit: dict[str, Any], session: Session) -> dict[str, Any]:
        data = self._shard("validation", unit["partition"])
        begun = time.perf_counter()
        sums = session.evaluate(data)
        return {"seconds": time.perf_counter() - begun, "rows": data.rows, "sums": sums}

    def _keep(self, record: Record, state: bytes) -> None:
        """Write a state to the store and say so; beside the training."""
        caller, who = self._keeper, {"worker": self._worker.worker, "attempt": self._attempt}
        said: dict[str, Any] = {"config": record.config, "version": record.version, "digest": record.digest}
        try:
            for wait in (*_RETRIES, None):
                try:
                    begun = time.perf_counter()
                    self._checkpoints.write(record, state)
                    said["seconds"] = time.perf_counter() - begun
                    break
                except StoreError as error:
                    if wait is None or self._over.wait(wait):
                        caller.call("unkept", who | said | {"error": str(error)}, timeout_s=_CALL_S)
                        return
            said["dropped"] = self._states.kept(record.config, record.version)
            if caller.call("kept", who | said, timeout_s=_CALL_S)["wanted"]:
                self._checkpoints.drop(record.config, record.version)
        except (CallError, RefusedError):
            _LOG.warning("worker %s could not tell that it kept %s", self._worker.worker, record.config)

    def _session(self, unit: dict[str, Any]) -> tuple[Session, int]:
        """A configuration's session at the wanted version, and the bytes that were fetched for it."""
        config, version = unit["config"], unit["version"]
        have, session = self._sessions.get(config, (-1, None))
        if session is None or (version == 0 and have != 0):
            seed = initial_seed(self._worker.seed, config)
            session = open_session(self._worker.trainer_fn, unit["params"], seed, device=self._device)
            self._fits(session)
            have = 0
        fetched = 0
        if have != version:
            state = self._states.get(f"{config}/{version}")
            if state is None:
                state = self._fetch(unit)
                fetched = len(state)
            session.restore(state)
        self._sessions[config] = (version, session)
        self._sessions.move_to_end(config)
        while len(self._sessions) > _OPEN:
            self._sessions.popitem(last=False)
        return session, fetched

    def _fits(self, session: Session) -> None:
        """Refuse a model before the kernel ends this process for it: the driver has looked at the first one only."""
        needed = training_bytes(session)
        if needed > self._model_bytes:
            raise MemoryError(
                f"the model has {session.weight_bytes:,} bytes of weights, and training it takes about {needed:,}, "
                f"more than the {self._model_bytes:,} of this worker"
            )

    def _fetch(self, unit: dict[str, Any]) -> bytes:
        """From the worker that trained last, or from the store."""
        config, version, peer = unit["config"], unit["version"], unit["peer"]
        if peer:
            if peer not in self._peers:
                self._peers[peer] = Caller(peer, self._worker.secret)
            state = self._peers[peer].fetch(f"{config}/{version}", timeout_s=_FETCH_S)
        else:
            try:
                state = self._checkpoints.read(config, version, unit["digest"])
            except StoreError as error:
                raise CallError(
                    f"the store does not give the state of {config} at version {version}: {error}"
                ) from error
        if digest_of(state) != unit["digest"]:
            raise CallError(f"the state of {config} at version {version} from {peer or 'the store'} is damaged")
        return state

    def _shard(self, split: str, partition: int) -> Tensors:
        found = self._shards.get((split, partition))
        if found is None:
            have = sum(_nbytes(shard) for shard in self._shards.values())
            left = max(0, self._shard_bytes - have)
            found = load_shard(self._worker.prepared, split, partition, memory_bytes=left)
            self._shards[split, partition] = found
        return found


def _nbytes(shard: Tensors) -> int:
    return sum(array.nbytes for array in (*shard.inputs, *shard.labels))


def _kind(error: BaseException) -> str:
    if isinstance(error, Diverged):
        return "diverged"
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return "out of memory"
    return "raised"


def _limit_threads(threads: int) -> None:
    """Before a framework reads it; one that is there already is told."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = str(threads)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
