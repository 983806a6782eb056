"""Passes of a pool's records through the best model, and tasks that score them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from udfs.adaptation._coverage import CoreSet, Projection, flattened
from udfs.adaptation._inputs import input_expressions
from udfs.adaptation._pool_features import PoolFeatures, PoolKeeper, PoolReader
from udfs.adaptation._reader import FeatureReader
from udfs.adaptation._rows import batches
from udfs.adaptation._trunk import Trunk
from udfs.arrow import rebatch, to_lists
from udfs.handlers import register_framework, registered_frameworks
from udfs.inference import NetworkInputs
from udfs.node import keep_freed_memory, limit_threads
from udfs.shards import SPLITS, Ledger, by_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.adaptation._features import FeatureStore
    from udfs.handlers import Adapted, Framework
    from udfs.inference import OutputUncertainty
    from udfs.shards import GrowingData

__all__ = [
    "AdaptedOpener",
    "BestModel",
    "LabelledCoreSet",
    "LabelledIds",
    "PoolCoreSet",
    "PoolPass",
    "PoolUncertainty",
]

MASK = "attention_mask"
"""Column that is 0 for padding."""


class AdaptedOpener(Protocol):
    """Function that opens a configuration in a worker, as a partial of :func:`udfs.handlers.open_adapted` does."""

    def __call__(self, params: Mapping[str, Any], /) -> Adapted:
        """Open the configuration of some params."""


@dataclass(frozen=True, slots=True)
class BestModel:
    """Trained configuration that workers open; ``state`` reads its checkpoint."""

    opener: AdaptedOpener
    params: Mapping[str, Any]
    state: Callable[[], bytes]

    def open(self) -> Adapted:
        """Open the configuration with its trained weights."""
        adapted = self.opener(self.params)
        adapted.session.restore(self.state())
        adapted.follow(trained=True)
        return adapted


@dataclass(frozen=True, slots=True, eq=False)
class PoolBatch:
    """Batch of rows of a pool.

    ``bucket`` is the number of the shard of the ids, or the number of shards for rows without an id. ``rows`` come from
    Spark, without the bucket; ``good`` marks those that could be read. ``feeds`` are the inputs of the trained part of
    the model, of the good rows alone; ``present`` marks their tokens without padding.
    """

    bucket: int
    rows: pa.RecordBatch
    good: NDArray[np.bool_]
    feeds: tuple[NDArray[Any], ...]
    present: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class PoolPass:
    """Pass of a pool's rows through the frozen layers of the best model.

    ``features`` stores the layers of the labelled records ``data``. ``stored`` has the expressions of the stored
    layers, each with params of a configuration that has it; the pool's are stored too, in up to ``room`` bytes for each
    shard. If ``augmented``, copies of the training records are stored in their place: their layers without augmentation
    are then computed here, and those of pool records for training are not stored.
    """

    model: BestModel
    data: GrowingData
    features: FeatureStore
    stored: Mapping[str, Mapping[str, Any]]
    room: int
    images: tuple[str, ...]
    batch_size: int
    threads: int = 1
    augmented: bool = False
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks)

    def open(self) -> Adapted:
        """Open the model in a worker."""
        keep_freed_memory()
        register_framework(*self.registered)
        limit_threads(self.threads)
        return self.model.open()

    def batches(self, rows: Iterable[pa.RecordBatch], adapted: Adapted) -> Iterator[PoolBatch]:
        """Pass the rows of a Spark partition through the frozen layers in batches.

        Computed outputs of the stored layers are stored as far as there is space.

        The rows are sorted by the number of their shard. Their columns are that number, the id, a hash of the features,
        the features as Spark encodes them, and columns that are not read.
        """
        models = self._models(adapted)
        inputs = input_expressions(models, self.data)
        reads, at_hand = feeds_of(adapted), [*self.stored, *inputs]
        # Compute other layers that the model reads in the same pass, unless they follow from stored ones.
        others = [key for key in reads if self.stored.keys().isdisjoint(Trunk(models, at_hand, [key]).loads)]
        wants = list(dict.fromkeys([*self.stored, *others]))
        trunk = Trunk(models, [*wants, *inputs], reads)
        reading = NetworkInputs(self.data.inputs, self.images)
        names = [column.name for column in reading.columns]
        for bucket, parts in itertools.groupby(by_shard(rows), key=lambda part: part[0]):
            split, partition = SPLITS[min(bucket // self.data.num_shards, 1)], bucket % self.data.num_shards
            pool = PoolFeatures(self.features)
            reader = PoolReader(pool, split, partition, models, inputs, wants)
            # Records without an id belong to no shard.
            room = self.room if bucket < 2 * self.data.num_shards and not self._is_copied(split) else 0
            keeper = PoolKeeper(pool, split, partition, tuple(self.stored), room)
            for batch in rebatch((part for _, part in parts), self.batch_size):
                encoded = pa.RecordBatch.from_arrays(batch.columns[2 : 2 + len(names)], names=names)
                arrays, reasons = reading.read(encoded)
                good = np.array([reason is None for reason in reasons], np.bool_)
                feeds: tuple[NDArray[Any], ...] = ()
                if good.any():
                    ids = batch.column(0).filter(pa.array(good)).to_pylist()
                    hashes = batch.column(1).filter(pa.array(good)).to_numpy()
                    raw = {key: arrays[number] for key, number in inputs.items()}
                    arrays_by_key, fresh = reader(ids, hashes, raw)
                    keeper.add(ids, hashes, arrays_by_key, fresh)
                    # Round the layers as storing does, since the model was trained on stored ones.
                    arrays_by_key |= {key: self.features.as_stored(arrays_by_key[key]) for key in self.stored}
                    outputs = trunk(raw | arrays_by_key)
                    feeds = tuple(outputs[key] for key in reads)
                yield PoolBatch(bucket, batch, good, feeds, self._present(arrays))
            keeper.close()

    def labelled(self, split: str, partition: int, adapted: Adapted) -> Iterator[PoolBatch]:
        """Yield the labelled records of a shard in the same form, from their stored layers."""
        models = self._models(adapted)
        inputs = input_expressions(models, self.data)
        trunk = Trunk(models, [*self.stored, *inputs], feeds_of(adapted))
        # Stored layers of augmented records belong to their copies: compute those of the records.
        computed = [key for key in trunk.loads if key in self.stored] if self._is_copied(split) else []
        below = Trunk(models, list(inputs), computed)
        reader = FeatureReader(self.features, self.data, batch_size=self.batch_size)
        mask = [key for key, number in inputs.items() if number == self._mask]
        loads = [key for key in (*below.loads, *trunk.loads, *mask) if key not in computed]
        rows = reader.rows(split, partition, list(dict.fromkeys(loads)), models)
        for batch in batches(rows, np.arange(rows.rows), self.batch_size):
            layers = {key: self.features.as_stored(array) for key, array in below(batch.inputs).items()}
            outputs = trunk(batch.inputs | layers)
            present = batch.inputs[mask[0]] > 0 if mask else None
            nothing = pa.RecordBatch.from_arrays([pa.nulls(batch.rows)], names=["id"])
            feeds = tuple(outputs[key] for key in feeds_of(adapted))
            yield PoolBatch(0, nothing, np.ones(batch.rows, np.bool_), feeds, present)

    def _is_copied(self, split: str) -> bool:
        return self.augmented and split == "train"

    def _models(self, adapted: Adapted) -> list[Adapted]:
        """Open the configurations that have the stored layers."""
        # Layers that a freezing schedule froze first have trained since: stored layers are those of the initial model.
        opened = None if adapted.cuts else self.model.params
        return [adapted, *(self.model.opener(params) for params in _others(self.stored, opened))]

    @property
    def _mask(self) -> int | None:
        """Number of the input with the mask of padding."""
        places = [place for place, group in enumerate(self.data.inputs) if [c.name for c in group.columns] == [MASK]]
        return places[0] if places else None

    def _present(self, arrays: Sequence[NDArray[Any]]) -> NDArray[np.bool_] | None:
        return None if self._mask is None else arrays[self._mask] > 0


@dataclass(frozen=True, slots=True)
class PoolUncertainty:
    """Uncertainty of the best model about the records of a pool, for ``mapInArrow``.

    ``names`` are the columns to keep; the new column ``output`` is null if a row cannot be read or the uncertainty is
    NaN.
    """

    source: PoolPass
    uncertainty: OutputUncertainty
    names: tuple[str, ...]
    output: str

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, each with its score."""
        first = next(filter(len, rows := iter(rows)), None)
        if first is None:
            return
        adapted = self.source.open()
        for batch in self.source.batches(itertools.chain([first], rows), adapted):
            scores = np.full(len(batch.good), np.nan)
            if batch.good.any():
                outputs = adapted.session.predict(batch.feeds)[0]
                scores[batch.good] = self.uncertainty(outputs, batch.present)
            kept = batch.rows.columns[len(batch.rows.columns) - len(self.names) :]
            # Spark sorts NaN as the largest number.
            yield pa.RecordBatch.from_arrays(
                [*kept, pa.array(scores, mask=np.isnan(scores))], names=[*self.names, self.output]
            )


@dataclass(frozen=True, slots=True)
class PoolCoreSet:
    """Core-set of each shard of a pool, for ``mapInArrow``.

    ``centres`` are the vectors of labelled records, ``count`` is the number of records of each shard, and ``seed`` that
    of the projection.
    """

    source: PoolPass
    centres: NDArray[np.float32]
    count: int
    seed: int

    schema = "bucket int, place int, id string, vector array<float>"

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the chosen records of each shard, in the order of their choice."""
        first = next(filter(len, rows := iter(rows)), None)
        if first is None:
            return
        adapted, projection = self.source.open(), Projection(self.seed)
        passed = self.source.batches(itertools.chain([first], rows), adapted)
        for bucket, parts in itertools.groupby(passed, key=lambda batch: batch.bucket):
            core = CoreSet(self.centres, self.count)
            for batch in parts:
                if not batch.good.any():
                    continue
                vectors = vectors_of(adapted, batch, projection)
                ids = batch.rows.column(0).filter(pa.array(batch.good))
                # Skip records without an id or with NaN.
                usable = np.isfinite(vectors).all(axis=1) & ids.is_valid().to_numpy(zero_copy_only=False)
                core.add(ids.filter(pa.array(usable)).to_pylist(), vectors[usable])
            yield _core_rows(bucket, *core.records())


@dataclass(frozen=True, slots=True)
class LabelledCoreSet:
    """Core-set of the labelled records of each shard, for ``mapInArrow`` on numbers of shards."""

    source: PoolPass
    count: int
    seed: int

    schema = PoolCoreSet.schema

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the chosen records of each shard without ids."""
        shards = [number for batch in numbers for number in batch.column(0).to_pylist()]
        if not shards:
            return
        adapted, projection = self.source.open(), Projection(self.seed)
        data = self.source.data
        for number in shards:
            split, partition = SPLITS[number // data.num_shards], number % data.num_shards
            core: CoreSet | None = None
            if any((shard.split, shard.partition) == (split, partition) and shard.rows for shard in data.shards):
                for batch in self.source.labelled(split, partition, adapted):
                    vectors = vectors_of(adapted, batch, projection)
                    core = core or CoreSet(np.empty((0, vectors.shape[1]), np.float32), self.count)
                    core.add([""] * len(vectors), vectors)
            if core is not None:
                yield _core_rows(number, *core.records())


@dataclass(frozen=True, slots=True)
class LabelledIds:
    """Ids of the labelled records, for ``mapInArrow`` on numbers of shards."""

    data: GrowingData

    column = "cerebro_spark_labelled"
    schema = f"{column} string"

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the ids of each shard."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                split, partition = SPLITS[number // self.data.num_shards], number % self.data.num_shards
                ids = Ledger(self.data.increments, split, partition).ids()
                yield pa.RecordBatch.from_arrays([pa.array(ids, pa.string())], names=[self.column])


def feeds_of(adapted: Adapted) -> list[str]:
    """Return the expressions of the layers that the trained part of a model reads."""
    return [adapted.graph.expression(name) for name in adapted.feeds]


def vectors_of(adapted: Adapted, batch: PoolBatch, projection: Projection) -> NDArray[np.float32]:
    """Return vectors of a batch's good rows, of the frozen layers that the model reads, or of its outputs."""
    layers = [array for name, array in zip(adapted.feeds, batch.feeds, strict=True) if name not in adapted.graph.inputs]
    if not layers:
        layers = list(adapted.session.predict(batch.feeds)[:1])
    return projection(flattened(layers, batch.present))


def _others(stored: Mapping[str, Mapping[str, Any]], opened: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """List the configurations that have the stored layers, without the opened one."""
    others: list[Mapping[str, Any]] = []
    for params in stored.values():
        if params != opened and params not in others:
            others.append(params)
    return others


def _core_rows(bucket: int, ids: Sequence[str], vectors: NDArray[np.float32]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "bucket": pa.array([bucket] * len(ids), pa.int32()),
            "place": pa.array(range(len(ids)), pa.int32()),
            "id": pa.array(ids, pa.string()),
            "vector": to_lists(vectors, np.ones(len(ids), np.bool_)),
        }
    )
