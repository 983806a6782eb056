"""Reader of a shard's rows as outputs of frozen layers, which repairs damaged files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.adaptation._computing import compute
from udfs.adaptation._copies import CopiedRows
from udfs.adaptation._errors import DamagedFeatureError, MissingFeatureError
from udfs.adaptation._inputs import input_expressions
from udfs.adaptation._rows import FeatureRows
from udfs.adaptation._segment import segments_of
from udfs.adaptation._stacked_arrays import Stacked
from udfs.shards import Ledger, load_labels, load_shard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.adaptation._augmentation import Augmenter
    from udfs.adaptation._features import FeatureStore, StoredArray
    from udfs.adaptation._segment import Segment
    from udfs.adaptation._trunk import TrunkModel
    from udfs.shards import GrowingData, Tensors

__all__ = ["FeatureReader"]

_LOG = logging.getLogger(__name__)


class FeatureReader:
    """Reader of growing data as outputs of frozen layers, which keeps its files open.

    Repairs take ``batch_size`` rows at a time, as in the materialising job, which gives the same bits. ``memory_bytes``
    limits the memory for rows of the networks' inputs; further rows are mapped from the node's disk. ``remade`` counts
    the damaged or missing files that were computed again.
    """

    def __init__(
        self,
        features: FeatureStore,
        data: GrowingData,
        *,
        batch_size: int,
        memory_bytes: int | None = None,
        augmenter: Augmenter | None = None,
    ) -> None:
        self._features = features
        self._data = data
        self._batch_size = batch_size
        self._memory = memory_bytes
        self._augmenter = augmenter
        self._used_bytes = 0
        self._segments: dict[tuple[str, int], list[Segment]] = {}
        for segment in segments_of(data):
            self._segments.setdefault((segment.split, segment.partition), []).append(segment)
        self._kept: dict[tuple[str, int], list[NDArray[np.int64] | None]] = {}
        self._labels: dict[tuple[str, int], Tensors] = {}
        self._arrays: dict[tuple[str, Segment], StoredArray] = {}
        self._raw: dict[Segment, Tensors] = {}
        self._copies: dict[Segment, CopiedRows] = {}
        self.remade = 0

    def rows(
        self,
        split: str,
        partition: int,
        loads: Sequence[str],
        models: Sequence[TrunkModel],
        *,
        epoch: int | None = None,
    ) -> FeatureRows:
        """Open the rows of a shard.

        ``loads`` are expressions of stored layers, and of input layers of ``models``, which are rows of the data; the
        models also repair damaged or missing files. ``epoch`` determines the copy of augmented records; without it
        records are not augmented. The rows are in the order of :func:`udfs.shards.load_shard`. Raise
        InvalidArgumentError if a file has to be repaired and no model has the layer, and ShardError, StoreError or
        NodeCacheError if the rows or features cannot be read.
        """
        place = (split, partition)
        labels = self._labels_of(place)
        inputs = input_expressions(models, self._data)
        segments = self._segments.get(place, [])
        augmenter = self._augmenter
        if augmenter is not None and epoch is not None and split == "train":
            segments = [augmenter.segment(segment, augmenter.copy_of(epoch)) for segment in segments]
        stacked = [self._stacked(place, segments, key, inputs, models) for key in loads]
        return FeatureRows(
            tuple(loads),
            tuple(array for array, _ in stacked),
            labels.labels,
            labels.rows,
            labels.weights,
            sum(nbytes for _, nbytes in stacked),
            self._features.bytes_per_second,
        )

    def forget(self) -> None:
        """Close all files, and free all rows in memory."""
        for cache in (self._kept, self._labels, self._arrays, self._raw, self._copies):
            cache.clear()
        self._used_bytes = 0

    def _labels_of(self, place: tuple[str, int]) -> Tensors:
        if place not in self._labels:
            self._labels[place] = load_labels(self._data, *place)
            edits = Ledger(self._data.increments, *place).edits()
            self._kept[place] = [None if edit.keep is None else np.flatnonzero(edit.keep) for edit in edits]
        return self._labels[place]

    def _stacked(
        self,
        place: tuple[str, int],
        segments: Sequence[Segment],
        key: str,
        inputs: dict[str, int],
        models: Sequence[TrunkModel],
    ) -> tuple[Stacked, int]:
        parts: list[tuple[Any, NDArray[np.int64] | None]] = []
        row_bytes = 0
        for segment in segments:
            kept = self._kept[place][segment.increment]
            if key in inputs:
                parts.append((self._input_of(segment, inputs[key]), kept))
            else:
                stored = self._array(key, segment, models)
                row_bytes = stored.row_bytes
                parts.append((stored, kept))
        if key in inputs:
            group = self._data.inputs[inputs[key]]
            return Stacked(parts, group.shape, group.dtype), group.nbytes
        layer = next(m.graph[name] for m in models for name in m.graph.names if m.graph.expression(name) == key)
        return Stacked(parts, layer.output_shape, layer.dtype), row_bytes

    def _array(self, key: str, segment: Segment, models: Sequence[TrunkModel]) -> StoredArray:
        if (key, segment) not in self._arrays:
            try:
                array = self._features.open(key, segment)
            except (DamagedFeatureError, MissingFeatureError) as error:
                _LOG.warning("%s", error)
                self._features.delete(key, segment)
                done = compute(
                    self._features,
                    self._data,
                    segment,
                    [key],
                    models,
                    batch_size=self._batch_size,
                    augmenter=self._augmenter,
                )
                self.remade += 1 + len(done.damaged)
                array = self._features.open(key, segment)
            self._arrays[key, segment] = array
        return self._arrays[key, segment]

    def _input_of(self, segment: Segment, number: int) -> Any:
        """Return an input's rows, or their augmented copy."""
        if segment.copy is None:
            return self._raw_of(segment).inputs[number]
        if segment not in self._copies:
            assert self._augmenter is not None  # only it makes segments of copies
            shard = self._segments[segment.split, segment.partition]
            raw = next(original for original in shard if original.increment == segment.increment)
            ledger = Ledger(self._data.increments, segment.split, segment.partition)
            record_ids, _ = ledger.records(segment.increment)
            inputs = self._raw_of(raw).inputs
            self._copies[segment] = CopiedRows(self._augmenter, inputs, record_ids, segment.copy)
        return self._copies[segment].input(number)

    def _raw_of(self, segment: Segment) -> Tensors:
        if segment not in self._raw:
            increment = self._data.increments[segment.increment].data
            room = None if self._memory is None else max(0, self._memory - self._used_bytes)
            tensors = load_shard(increment, segment.split, segment.partition, memory_bytes=room)
            self._used_bytes += sum(array.nbytes for array in tensors.inputs if not isinstance(array, np.memmap))
            self._raw[segment] = tensors
        return self._raw[segment]
