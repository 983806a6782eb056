"""Training of experts in the background of a worker process."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from udfs.specialization._expert_head import train_expert
from udfs.specialization._training_rows import read_parts
from udfs.weights import WeightsError

if TYPE_CHECKING:
    from optimizer.specialization import Expert
    from udfs.specialization._expert_head import TrainedExpert
    from udfs.specialization._spec import SpecializationSpec

__all__ = ["ExpertTraining"]

_KEPT = 64
_FAILURES = (ImportError, MemoryError, OSError, RuntimeError, TimeoutError, ValueError, WeightsError)

logger = logging.getLogger(__name__)


class ExpertTraining:
    """Experts that are trained beside the stream, in a thread.

    An expert depends on the training rows and its dominant classes alone, so that a process that continues a stream
    trains the same one.

    Parameters
    ----------
    spec : SpecializationSpec
        Training rows and settings.
    """

    def __init__(self, spec: SpecializationSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._futures: dict[tuple[int, tuple[int, ...]], Future[TrainedExpert]] = {}

    def start(self, expert: Expert) -> Future[TrainedExpert]:
        """Begin to train an expert, unless this has begun."""
        key = (expert.compact, expert.dominant)
        with self._lock:
            if key not in self._futures:
                while len(self._futures) >= _KEPT:
                    self._futures.pop(next(iter(self._futures)))
                # A pool per expert: one that hangs must not block the next.
                pool = ThreadPoolExecutor(1, thread_name_prefix="expert")
                self._futures[key] = pool.submit(self._train, expert)
                pool.shutdown(wait=False)
            return self._futures[key]

    def result(self, expert: Expert) -> TrainedExpert | None:
        """Wait for an expert; return ``None`` if its training failed or took too long."""
        try:
            return self.start(expert).result(timeout=self._spec.training_timeout)
        except _FAILURES as error:
            reason = str(error) or type(error).__name__
            logger.warning("training of expert %s failed: %s; the oracle continues", expert.name, reason)
            return None

    def _train(self, expert: Expert) -> TrainedExpert:
        compact = self._spec.compacts[expert.compact]
        rows = read_parts(self._spec.parts).rows[compact.network]
        return train_expert(rows.features, rows.labels, expert.dominant, compact.skew)
