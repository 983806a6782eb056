"""Measurement of the rates at which stored outputs are read and frozen layers run."""

from __future__ import annotations

import itertools
import json
import os
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from udfs.adaptation._features import FOLDER
from udfs.adaptation._inputs import input_expressions
from udfs.adaptation._rows import FeatureRows, batches
from udfs.adaptation._segment import Segment
from udfs.adaptation._stacked_arrays import Stacked
from udfs.adaptation._trunk import Trunk
from udfs.handlers import register_framework, registered_frameworks
from udfs.node import keep_freed_memory, limit_threads
from udfs.shards import load_rows
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.adaptation._features import FeatureStore
    from udfs.adaptation._task import ModelOpener
    from udfs.adaptation._trunk import TrunkModel
    from udfs.handlers import Framework
    from udfs.shards import GrowingData

__all__ = ["LayerTime", "MeasuringTask", "ReaderSpeed", "TrunkSpeed", "measure_reader", "measure_trunk"]


@dataclass(frozen=True, slots=True)
class ReaderSpeed:
    """Rates of reading stored outputs in batches of random rows.

    ``cold`` is in bytes per second from the disk, or from the store to the node's cache; ``warm`` is from memory.
    """

    cold: float
    warm: float


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Time of the layers between two stopping points, for one record; the expression is that of the last layer."""

    expression: str
    flops: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TrunkSpeed:
    """Rates of frozen layers: times of the layers between stopping points, from the inputs."""

    segments: tuple[LayerTime, ...]

    @property
    def flops_per_second(self) -> float:
        """FLOPs per second of all layers together."""
        seconds = sum(segment.seconds for segment in self.segments)
        return sum(segment.flops for segment in self.segments) / seconds if seconds else 0.0


def measure_reader(
    features: FeatureStore, *, row_bytes: int = 1 << 16, nbytes: int = 1 << 26, batch_size: int = 16
) -> ReaderSpeed:
    """Write outputs of a synthetic layer, measure the rate of reading them, and delete them.

    The ``storage_dtype`` and ``bytes_per_second`` of the store apply; ``row_bytes`` are those of a row as float32. The
    rates are in bytes of the file, which are half of the float32 numbers with bfloat16. The cold rate follows a request
    to the system to drop the file from memory, which it may ignore.

    Raises
    ------
    udfs.store.StoreError, udfs.node.NodeCacheError
        The store or the node's cache cannot be used.
    """
    # A unique folder, since other workers measure in the same store.
    probe = replace(features, name=f"probe-{uuid.uuid4().hex}")
    shape = (max(1, row_bytes // 4),)
    segment = Segment(0, "probe", "train", 0, max(2 * batch_size, nbytes // row_bytes))
    block = np.random.default_rng(0).normal(size=(batch_size, *shape)).astype(np.float32)
    try:
        with probe.writing(segment, {"probe": (shape, "float32")}) as files:
            for start in range(0, segment.rows, batch_size):
                files["probe"].write(block[: segment.rows - start])
        _forget(probe)
        cold = _read(probe, segment, batch_size, checked=False)
        return ReaderSpeed(cold, _read(probe, segment, batch_size, checked=True))
    finally:
        probe.store.delete(FOLDER, probe.name)


def _read(features: FeatureStore, segment: Segment, batch_size: int, *, checked: bool) -> float:
    began = time.perf_counter()
    # Opening a file, with the verification of its digest, is part of the first read.
    stored = features.open("probe", segment)
    if checked:
        began = time.perf_counter()
    inputs = (Stacked([(stored, None)], stored.shape[1:], stored.dtype),)
    no_labels = np.zeros(segment.rows)
    rows = FeatureRows(
        ("probe",), inputs, (no_labels,), segment.rows, None, stored.row_bytes, features.bytes_per_second
    )
    for _ in batches(rows, np.random.default_rng(1).permutation(segment.rows), batch_size):
        pass
    return segment.rows * stored.row_bytes / max(time.perf_counter() - began, 1e-9)


def _forget(features: FeatureStore) -> None:
    """Ask the system to drop local files from memory."""
    if urlsplit(features.store.uri).scheme != "file":
        return
    for path in Path(features.store.path(FOLDER, features.name)).rglob("*.bin"):
        with path.open("rb") as file, suppress(OSError, AttributeError):
            # Dirty pages would stay in memory.
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_trunk(
    model: TrunkModel,
    rows: Mapping[str, NDArray[Any]],
    stops: Sequence[str],
    *,
    seconds: float = 1.0,
) -> TrunkSpeed:
    """Time the frozen layers of a model, from each stopping point to the next.

    FLOPs alone are a poor predictor: element-wise layers take longer per FLOP than convolutions. ``rows`` has a batch
    of each input by expression; ``stops`` are the layers that a plan may store, in topological order. Each part runs
    for ``seconds``, and at least one batch after the first one.

    Raises
    ------
    optimizer.errors.InvalidArgumentError, optimizer.errors.GraphError
        See :class:`Trunk`.
    """
    at_hand = dict(rows)
    count = len(next(iter(rows.values())))
    times = []
    for stop in stops:
        trunk = Trunk([model], list(at_hand), [stop])
        # The first batch compiles, allocates and reads the weights.
        at_hand |= trunk(at_hand)
        began = time.perf_counter()
        for done in itertools.count(1):
            trunk(at_hand)
            passed = time.perf_counter() - began
            if passed >= seconds:
                times.append(LayerTime(stop, trunk.flops, passed / done / count))
                break
    return TrunkSpeed(tuple(times))


@dataclass(frozen=True, slots=True)
class MeasuringTask:
    """Measurement in the workers, for ``mapInArrow`` on as many rows as workers, each in a task.

    ``params`` are those of a configuration, ``nbytes`` the bytes to read, and ``registered`` the frameworks that were
    registered on the driver; for ``stops`` and ``seconds`` see :func:`measure_trunk`.
    """

    features: FeatureStore
    data: GrowingData
    params: Mapping[str, Any]
    opener: ModelOpener
    stops: tuple[str, ...]
    batch_size: int
    threads: int
    seconds: float
    nbytes: int
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks)

    schema: ClassVar[str] = "cold double, warm double, segments string, full string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Measure, and yield a row for each input row."""
        tasks = sum(batch.num_rows for batch in batches)
        keep_freed_memory()
        register_framework(*self.registered)
        limit_threads(self.threads)
        for _ in range(tasks):
            model = self.opener(self.params)
            rows = load_rows(self.data, "train", self.batch_size)
            inputs = {key: rows.inputs[place] for key, place in input_expressions([model], self.data).items()}
            trunk = measure_trunk(model, inputs, self.stops, seconds=self.seconds)
            reader, full = ReaderSpeed(0.0, 0.0), ""
            try:
                reader = measure_reader(self.features, nbytes=self.nbytes, batch_size=self.batch_size)
            except StoreFullError as error:
                # Raised in the task, Spark would print it with a traceback for each task.
                full = str(error)
            yield pa.RecordBatch.from_pydict(
                {
                    "cold": [reader.cold],
                    "warm": [reader.warm],
                    "segments": [json.dumps([asdict(segment) for segment in trunk.segments])],
                    "full": [full],
                }
            )
