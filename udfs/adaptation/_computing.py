"""Computation of missing outputs of frozen layers for a segment, from the nearest stored layers."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from udfs.adaptation._errors import DamagedFeatureError, MissingFeatureError
from udfs.adaptation._inputs import input_expressions
from udfs.adaptation._pool_features import PoolFeatures, PoolReader
from udfs.adaptation._trunk import Trunk, frozen_layers
from udfs.shards import Ledger, read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.adaptation._augmentation import Augmenter
    from udfs.adaptation._bfloat16 import StorageError
    from udfs.adaptation._features import FeatureStore, StoredArray
    from udfs.adaptation._segment import Segment
    from udfs.adaptation._trunk import TrunkModel
    from udfs.shards import GrowingData

__all__ = ["Computed", "compute"]


@dataclass(frozen=True, slots=True)
class Computed:
    """Result of storing layers for a segment.

    ``passed`` counts the rows that passed the trunk from its inputs for some layer, now or in an earlier attempt;
    ``flops`` are those of the frozen layers that ran, over all rows. Bytes written and errors are by expression;
    ``damaged`` are the expressions of damaged files that were computed again.
    """

    segment: Segment
    passed: int
    nbytes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, StorageError] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    seconds: float = 0.0
    flops: int = 0


def compute(
    features: FeatureStore,
    data: GrowingData,
    segment: Segment,
    wants: Sequence[str],
    models: Sequence[TrunkModel],
    *,
    batch_size: int,
    augmenter: Augmenter | None = None,
) -> Computed:
    """Store the missing outputs of layers for the rows of a segment, in one pass.

    ``wants`` are expressions of layers; stored ones do not change. The rows pass in the order of the segment,
    ``batch_size`` at a time. ``augmenter`` draws the rows of a segment of copies. Raise InvalidArgumentError if no
    model has a layer, AugmentationError if a record cannot be augmented, and ShardError or StoreError if rows cannot be
    read or outputs cannot be written; partial outputs are removed.
    """
    began = time.monotonic()
    missing = [want for want in dict.fromkeys(wants) if not features.has(want, segment)]
    inputs = input_expressions(models, data)
    shapes = _shapes(models)
    stored = [key for key in shapes if key not in inputs and key not in missing and features.has(key, segment)]
    damaged: list[str] = []
    while True:
        trunk = Trunk(models, [*stored, *inputs], missing)
        opened: dict[str, StoredArray] = {}
        try:
            for key in trunk.loads:
                if key not in inputs:
                    opened[key] = features.open(key, segment)
        except (DamagedFeatureError, MissingFeatureError):
            # Compute it again with the others.
            features.delete(key, segment)
            stored.remove(key)
            missing.append(key)
            damaged.append(key)
        else:
            break
    # A lost attempt of this task may have stored some layers, whose rows have passed the trunk.
    already = {key: features.file(key, segment) for key in wants if key not in missing}
    errors = {key: file.error for key, file in already.items()}
    passed = max((file.passed for file in already.values()), default=0)
    if not missing:
        return Computed(segment, passed, errors=errors)
    outputs = {key: shapes[key] for key in missing}
    flops = 0
    rows = _SegmentRows(data, segment, inputs, opened, batch_size, augmenter)
    with features.writing(segment, outputs) as files:
        for arrays, count, spent in _computed(features, rows, trunk, models):
            flops += spent
            for key, array in arrays.items():
                files[key].write(array, passed=count)
    return Computed(
        segment,
        max(passed, *(files[key].passed for key in missing)),
        {key: files[key].nbytes for key in missing},
        errors | {key: files[key].error for key in missing},
        tuple(damaged),
        time.monotonic() - began,
        flops,
    )


@dataclass(frozen=True, slots=True)
class _SegmentRows:
    """Rows of a segment in batches.

    ``inputs`` are numbers of the data's inputs by expression, ``opened`` the stored layers by expression.
    """

    data: GrowingData
    segment: Segment
    inputs: dict[str, int]
    opened: dict[str, StoredArray]
    size: int
    augmenter: Augmenter | None

    def records(self) -> tuple[list[str], NDArray[Any]]:
        """Return the ids of the rows, and the hashes of their features."""
        ledger = Ledger(self.data.increments, self.segment.split, self.segment.partition)
        return ledger.records(self.segment.increment)

    def starts(self) -> range:
        """Return the first row of each batch."""
        return range(0, self.segment.rows, self.size)

    def batches(self, loads: Sequence[str]) -> Iterator[dict[str, NDArray[Any]]]:
        """Read batches of inputs and stored layers in the order of the segment's rows."""
        raw = [key for key in loads if key in self.inputs]
        rows = self._raw() if raw else itertools.repeat(())
        for start, tensors in zip(self.starts(), rows, strict=False):
            batch = {key: array[start : start + self.size] for key, array in self.opened.items()}
            yield batch | {key: tensors[self.inputs[key]] for key in raw}
        # Reading to the end verifies the digest of the file.
        if raw:
            assert next(iter(rows), None) is None  # a segment has as many rows as its file

    def _raw(self) -> Iterator[tuple[NDArray[Any], ...]]:
        increment, segment = self.data.increments[self.segment.increment].data, self.segment
        copy, augmenter = segment.copy, self.augmenter
        record_ids = [] if copy is None else self.records()[0]
        for number, tensors in enumerate(read_batches(increment, segment.split, segment.partition, self.size)):
            if copy is None:
                yield tensors.inputs
            else:
                assert augmenter is not None  # only it makes segments of copies
                start = number * self.size
                yield augmenter(tensors.inputs, record_ids[start : start + self.size], copy)


def _computed(
    features: FeatureStore, rows: _SegmentRows, trunk: Trunk, models: Sequence[TrunkModel]
) -> Iterator[tuple[dict[str, NDArray[Any]], int, int]]:
    """Yield the outputs of each batch, the number of rows that passed the trunk from its inputs, and the FLOPs."""
    inputs, segment = rows.inputs, rows.segment
    from_inputs = any(key in inputs for key in trunk.loads)
    # Pools have records without augmentation.
    if from_inputs and not rows.opened and segment.copy is None:
        pool = PoolReader(PoolFeatures(features), segment.split, segment.partition, models, inputs, trunk.wants)
        if not pool.is_empty:
            ids, hashes = rows.records()
            for start, raw in zip(rows.starts(), rows.batches(tuple(inputs)), strict=True):
                before, end = pool.flops, start + rows.size
                arrays, fresh = pool(ids[start:end], hashes[start:end], raw)
                yield arrays, int(fresh.sum()), pool.flops - before
            return
    for batch in rows.batches(trunk.loads):
        outputs = trunk(batch)
        count = len(next(iter(outputs.values())))
        yield outputs, count if from_inputs else 0, trunk.flops * count


def _shapes(models: Sequence[TrunkModel]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and type of each frozen layer's output by expression."""
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    for model in models:
        for key, name in frozen_layers(model).items():
            layer = model.graph[name]
            shapes.setdefault(key, (layer.output_shape, layer.dtype))
    return shapes
