"""Uploads of a worker's checkpoints to the store, during the training."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TYPE_CHECKING

from udfs.hopper._messages import Acknowledged, CheckpointFailed, CheckpointStored
from udfs.rpc import CallError, RefusedError
from udfs.store import StoreError

if TYPE_CHECKING:
    from udfs.hopper._checkpoints import Checkpoints, Record
    from udfs.hopper._states import States
    from udfs.rpc import Caller

__all__ = ["Uploads"]

_LOG = logging.getLogger(__name__)

_CALL_S = 30.0

# Seconds before another try where the store would not take a checkpoint.
_RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0)


class Uploads:
    """Checkpoints on their way to the store, one at a time, in order.

    Parameters
    ----------
    num_shards : int
        Number of shards, which is the number of units of an epoch.
    """

    def __init__(
        self,
        worker: str,
        attempt: str,
        driver: Caller,
        checkpoints: Checkpoints,
        states: States,
        *,
        num_shards: int,
    ) -> None:
        self._worker = worker
        self._attempt = attempt
        self._driver = driver
        self._checkpoints = checkpoints
        self._states = states
        self._num_shards = num_shards
        self._over = threading.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")

    def submit(self, record: Record, state: bytes) -> None:
        """Write a checkpoint soon."""
        self._writer.submit(self._upload, record, state)

    def flush(self, timeout_s: float) -> None:
        """Wait until the checkpoints submitted so far are written, or the time is over."""
        with suppress(CancelledError, FutureTimeoutError, RuntimeError):  # RuntimeError: it is closed
            self._writer.submit(bool).result(timeout_s)

    def close(self) -> None:
        """Drop those that are not written yet."""
        self._over.set()
        self._writer.shutdown(wait=False, cancel_futures=True)

    def _upload(self, record: Record, state: bytes) -> None:
        try:
            seconds = self._write(record, state)
            if seconds is None:
                return
            stored = CheckpointStored(
                worker=self._worker,
                attempt=self._attempt,
                trial_id=record.trial_id,
                version=record.version,
                digest=record.digest,
                seconds=seconds,
                dropped=tuple(self._states.stored(record.trial_id, record.version)),
            )
            if isinstance(self._driver.call(stored, timeout_s=_CALL_S), Acknowledged):
                self._checkpoints.drop(record.trial_id, record.version, self._num_shards)
        except (CallError, RefusedError):
            _LOG.warning("worker %s could not tell that the store has %s", self._worker, record.trial_id)

    def _write(self, record: Record, state: bytes) -> float | None:
        """Return the seconds of the write; ``None`` if the store refuses it, and the driver knows."""
        for wait_s in (*_RETRIES, None):
            begun = time.perf_counter()
            try:
                self._checkpoints.write(record, state)
            except StoreError as error:
                if wait_s is None or self._over.wait(wait_s):
                    failed = CheckpointFailed(worker=self._worker, trial_id=record.trial_id, error=str(error))
                    self._driver.call(failed, timeout_s=_CALL_S)
                    return None
            else:
                return time.perf_counter() - begun
        return None
