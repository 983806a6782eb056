"""Rows of features and labels in memory, and counts of their defects."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["Census", "Rows", "dense", "read_rows", "stacked"]


@dataclass(slots=True)
class Census:
    """Counts of rows and of their defects; those of several tasks add up.

    ``rows`` counts the bad ones too. Null labels and weights include NaN; ``odd`` features have a NaN, an infinity or a
    null among them, odd labels are infinite, odd weights negative or infinite, and ``fractional`` labels no whole
    numbers from 0 on. ``shortest`` and ``longest`` are numbers of features, 0 without rows; ``least`` and ``most`` the
    range of the good labels; ``weight`` is the sum of the good weights, of all rows where there are none.
    """

    rows: int = 0
    null_features: int = 0
    odd_features: int = 0
    null_labels: int = 0
    odd_labels: int = 0
    fractional: int = 0
    null_weights: int = 0
    odd_weights: int = 0
    shortest: int = 0
    longest: int = 0
    least: float = np.inf
    most: float = -np.inf
    weight: float = 0.0

    def __add__(self, other: Census) -> Census:
        counts = {
            name: getattr(self, name) + getattr(other, name)
            for name in (
                "rows",
                "null_features",
                "odd_features",
                "null_labels",
                "odd_labels",
                "fractional",
                "null_weights",
                "odd_weights",
                "weight",
            )
        }
        return Census(
            **counts,
            shortest=min(filter(None, (self.shortest, other.shortest)), default=0),
            longest=max(self.longest, other.longest),
            least=min(self.least, other.least),
            most=max(self.most, other.most),
        )

    def to_dict(self) -> dict[str, float]:
        """Convert for JSON (Python's own has infinities)."""
        return asdict(self)


@dataclass(slots=True)
class Rows:
    """The rows of one partition; the arrays hold the good ones, as long as all have one length.

    Features have the shape ``(n, d)``, labels and weights ``(n,)``.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    census: Census = field(default_factory=Census)


def dense(column: pa.Array) -> tuple[NDArray[np.float32], NDArray[np.bool_], tuple[int, int]]:
    """Convert lists of numbers to one array.

    Return the features of the good rows, those without NaN, infinities and nulls, or an array without columns if
    lengths differ; a mask of the good rows; and the least and the greatest number in a list, 0 where all are null.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if not valid.any():
        return np.empty((0, 0), np.float32), valid, (0, 0)
    ends = pc.min_max(pc.list_value_length(column)).as_py()
    shortest, longest = ends["min"], ends["max"]
    if shortest != longest:
        return np.empty((0, 0), np.float32), valid, (shortest, longest)
    flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    features = flat.reshape(int(valid.sum()), longest)
    good = np.isfinite(features).all(axis=1)
    if not good.all():
        valid = valid.copy()
        valid[valid] = good
        features = features[good]
    return features, valid, (shortest, longest)


def read_rows(batches: Iterable[pa.RecordBatch]) -> Rows:
    """Read a partition of lists of numbers, labels and, where there is a third column, weights, both as float64."""
    features: list[NDArray[np.float32]] = []
    labels: list[NDArray[np.float64]] = []
    weights: list[NDArray[np.float64]] = []
    census = Census()
    for batch in batches:
        if not batch.num_rows:
            continue
        matrix, valid, (shortest, longest) = dense(batch.column(0))
        label = batch.column(1).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        weight = np.ones(len(label))
        if batch.num_columns > 2:  # features, label, weight
            weight = batch.column(2).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        census += _census(batch.column(0), label, weight, valid, (shortest, longest))
        if census.shortest != census.longest:
            features, labels, weights = [], [], []  # rows of several lengths make no matrix
            continue
        good = np.isfinite(label) & np.isfinite(weight) & (weight >= 0)
        features.append(matrix[good[valid]])
        labels.append(label[valid & good])
        weights.append(weight[valid & good])
    return Rows(stacked(features), _joined(labels), _joined(weights), census)


def _joined(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.empty(0)


def _census(
    features: pa.Array,
    label: NDArray[np.float64],
    weight: NDArray[np.float64],
    valid: NDArray[np.bool_],
    lengths: tuple[int, int],
) -> Census:
    shortest, longest = lengths
    good_weight = np.isfinite(weight) & (weight >= 0)
    finite = label[np.isfinite(label)]
    null_features = features.null_count
    return Census(
        rows=len(label),
        null_features=null_features,
        odd_features=len(label) - int(valid.sum()) - null_features,
        null_labels=int(np.isnan(label).sum()),
        odd_labels=int(np.isinf(label).sum()),
        fractional=int(((finite < 0) | (finite != np.floor(finite))).sum()),
        null_weights=int(np.isnan(weight).sum()),
        odd_weights=int((~good_weight & ~np.isnan(weight)).sum()),
        weight=float(weight[good_weight].sum()),
        shortest=shortest,
        longest=longest,
        least=float(finite.min(initial=np.inf)),
        most=float(finite.max(initial=-np.inf)),
    )


def stacked(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Stack the parts, freeing each as it is copied: not twice the memory."""
    if not parts:
        return np.empty((0, 0), np.float32)
    whole = np.empty((sum(map(len, parts)), parts[0].shape[1]), np.float32)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole
