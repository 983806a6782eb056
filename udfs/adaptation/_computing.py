"""Compute outputs of frozen layers for the rows of a segment, from what is stored nearest, and store them."""

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

    from udfs.adaptation._bfloat16 import StorageError
    from udfs.adaptation._features import FeatureStore, StoredArray
    from udfs.adaptation._segment import Segment
    from udfs.adaptation._trunk import TrunkModel
    from udfs.shards import GrowingData

__all__ = ["Computed", "compute"]


@dataclass(frozen=True, slots=True)
class Computed:
    """What was stored for the rows of a segment.

    Parameters
    ----------
    segment : Segment
    passed : int
        Rows that passed the trunk from its inputs on for any of the layers, now or when they were stored.
    nbytes : dict of str to int
        Bytes written, by expression.
    errors : dict of str to StorageError
        Of all layers that were wanted.
    damaged : tuple of str
        Expressions whose files were damaged, and made again.
    seconds : float
    flops : int
        Of the frozen layers that ran, over all rows.
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
) -> Computed:
    """Store the outputs of layers that are not stored yet for the rows of a segment, in one pass over them.

    Parameters
    ----------
    features : FeatureStore
    data : GrowingData
    segment : Segment
        Of `data`.
    wants : sequence of str
        Expressions; those that are stored already are left as they are.
    models : sequence of TrunkModel
        Between them they have the layers.
    batch_size : int
        Rows at a time, in the order of the segment; the last batch may be short.

    Returns
    -------
    Computed

    Raises
    ------
    optimizer.errors.InvalidArgumentError
        No model has a layer that is wanted.
    udfs.shards.ShardError, udfs.store.StoreError
        The rows cannot be read, or the outputs not be written; nothing is left of those.
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
            # It is made again beside the others.
            features.delete(key, segment)
            stored.remove(key)
            missing.append(key)
            damaged.append(key)
        else:
            break
    # An attempt of this task that was lost may have stored some of them: their rows have passed the trunk all the same.
    already = {key: features.file(key, segment) for key in wants if key not in missing}
    errors = {key: file.error for key, file in already.items()}
    passed = max((file.passed for file in already.values()), default=0)
    if not missing:
        return Computed(segment, passed, errors=errors)
    outputs = {key: shapes[key] for key in missing}
    flops = 0
    with features.writing(segment, outputs) as files:
        for arrays, count, spent in _computed(features, data, segment, trunk, inputs, opened, models, batch_size):
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


def _computed(
    features: FeatureStore,
    data: GrowingData,
    segment: Segment,
    trunk: Trunk,
    inputs: dict[str, int],
    opened: dict[str, StoredArray],
    models: Sequence[TrunkModel],
    size: int,
) -> Iterator[tuple[dict[str, NDArray[Any]], int, int]]:
    """Yield each batch's outputs, how many rows of it passed the trunk from its inputs on, and the FLOPs that ran."""
    from_inputs = any(key in inputs for key in trunk.loads)
    if from_inputs and not opened:
        pool = PoolReader(PoolFeatures(features), segment.split, segment.partition, models, inputs, trunk.wants)
        if not pool.is_empty:
            ids, hashes = Ledger(data.increments, segment.split, segment.partition).records(segment.increment)
            starts = range(0, segment.rows, size)
            for start, raw in zip(starts, _batches(data, segment, tuple(inputs), inputs, {}, size), strict=True):
                before = pool.flops
                arrays, fresh = pool(ids[start : start + size], hashes[start : start + size], raw)
                yield arrays, int(fresh.sum()), pool.flops - before
            return
    for batch in _batches(data, segment, trunk.loads, inputs, opened, size):
        outputs = trunk(batch)
        rows = len(next(iter(outputs.values())))
        yield outputs, rows if from_inputs else 0, trunk.flops * rows


def _batches(
    data: GrowingData,
    segment: Segment,
    loads: Sequence[str],
    inputs: dict[str, int],
    opened: dict[str, StoredArray],
    size: int,
) -> Iterator[dict[str, NDArray[Any]]]:
    """Read what is to be loaded, in the order of the segment's rows."""
    own = data.increments[segment.increment].data
    raw = [key for key in loads if key in inputs]
    rows = read_batches(own, segment.split, segment.partition, size) if raw else itertools.repeat(None)
    for start, tensors in zip(range(0, segment.rows, size), rows, strict=False):
        batch = {key: array[start : start + size] for key, array in opened.items()}
        if tensors is not None:
            batch |= {key: tensors.inputs[inputs[key]] for key in raw}
        yield batch
    # The file of the rows is compared with its digest once all of it is read.
    if raw:
        assert next(rows, None) is None  # noqa: S101 - a segment has as many rows as its file


def _shapes(models: Sequence[TrunkModel]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Give the shape and type of each frozen layer's output, by expression."""
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    for model in models:
        for key, name in frozen_layers(model).items():
            layer = model.graph[name]
            shapes.setdefault(key, (layer.output_shape, layer.dtype))
    return shapes
