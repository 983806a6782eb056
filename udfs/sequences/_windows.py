"""Windows over series: a view of a shard's rows, so that no window is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import one_of, whole, whole_or_none
from optimizer.errors import InvalidArgumentError
from udfs.sequences._labels import label_function
from udfs.sequences._window_arrays import LabelArray, WindowArray, WindowStarts, downsampled
from udfs.shards import TensorColumn, TensorGroup
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.shards import Shard, Tensors

__all__ = ["Windows"]

METHODS = ("mean", "every")


@dataclass(frozen=True, slots=True)
class Windows:
    """View that makes overlapping windows of the rows of each series. A :class:`udfs.shards.RowView`.

    The network reads an input of shape ``(length / downsample, *shape)`` for each input of the shards, in time order.
    Windows are gathered from the shard's arrays, a batch at a time, so that configurations with different windows share
    one copy of the rows (the case study of Cerebro, thesis section 4.1). No window crosses from one series to the next.
    Series shorter than a window have none.

    Parameters
    ----------
    length : int
        Rows of a window, at least 1.
    stride : int, optional
        Rows between the beginnings of successive windows. Default ``length``: they do not overlap.
    downsample : int
        Number of successive rows that become one step of the input; ``length`` is a multiple of it. Default 1.
    method : {"mean", "every"}
        Way to downsample: the mean of the rows (a boxcar filter, the default), or the first of them.
    label : {"last", "middle", "majority", "mean", "max"} or callable
        Label of a window: that of its last row (default), that of row ``length // 2``, the most frequent one (of
        equally frequent ones, the smallest), the mean, or the largest. A function of an array ``(windows, length,
        ...)`` returns one label for each window. Labels are not downsampled.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed.
    TrainerError
        Once the data are known: an input of integers has no mean, or a function of labels returns another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from udfs.shards import Tensors
    >>> offsets = np.array([0, 5, 8])  # a series of five rows, and one of three
    >>> rows = Tensors((np.arange(8.0)[:, None],), (np.arange(8),), 8, names=("features",), offsets=offsets)
    >>> windows = Windows(3, stride=2).apply(rows)
    >>> windows.inputs[0][:][..., 0].tolist()
    [[0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]
    >>> windows.labels[0][:].tolist()
    [2, 4, 7]
    """

    length: int
    stride: int | None = None
    downsample: int = 1
    method: str = "mean"
    label: str | Callable[[NDArray[Any]], NDArray[Any]] = "last"

    def __post_init__(self) -> None:
        # Plain numbers, for the document of a saved model.
        object.__setattr__(self, "length", whole("length", self.length))
        object.__setattr__(self, "stride", whole_or_none("stride", self.stride))
        object.__setattr__(self, "downsample", whole("downsample", self.downsample))
        one_of("method", self.method, METHODS)
        label_function(self.label)
        if self.length % self.downsample:
            raise InvalidArgumentError(
                f"length must be a multiple of downsample={self.downsample}, got {self.length}. "
                f"{self.length - self.length % self.downsample or self.downsample} is the nearest below"
            )

    @property
    def step(self) -> int:
        """Rows between the beginnings of successive windows."""
        return self.length if self.stride is None else self.stride

    @property
    def steps(self) -> int:
        """Steps of the network's inputs."""
        return self.length // self.downsample

    @property
    def span(self) -> int:
        """Rows of a window."""
        return self.length

    @property
    def maps_labels(self) -> bool:
        """True if a window may have a label that none of its rows has."""
        return callable(self.label) or self.label == "mean"

    def groups(
        self, inputs: tuple[TensorGroup, ...], labels: tuple[TensorGroup, ...]
    ) -> tuple[tuple[TensorGroup, ...], tuple[TensorGroup, ...]]:
        """Return inputs with an axis of time before the others, and the labels of windows."""
        return tuple(map(self._input, inputs)), tuple(map(self._label, labels))

    def count(self, shard: Shard) -> int:
        """Return the number of windows of a shard."""
        return self._starts(_offsets(shard)).count

    def notes(self, shards: Sequence[Shard]) -> list[str]:
        """Describe the training series that have no window."""
        lengths = [length for shard in shards if shard.split == "train" for length in shard.lengths or ()]
        short = [length for length in lengths if length < self.length]
        if not short:
            return []
        skipped = f"{len(short):,} of {len(lengths):,} series ({sum(short):,} rows)"
        return [f"{skipped} are shorter than windows of {self.length} rows, and are skipped"]

    def rows_to_read(self, shard: Shard, rows: int) -> int:
        """Return how many rows of a shard contain the first ``rows`` windows."""
        starts = self._starts(_offsets(shard))
        last = min(rows, starts.count) - 1
        return int(starts[last : last + 1][0]) + self.length if last >= 0 else 0

    def apply(self, rows: Tensors) -> Tensors:
        """Return the windows of a shard's rows; arrays are gathered where they are indexed."""
        if rows.offsets is None:
            raise TrainerError(
                f"rows must be series in time order for {self}, got rows in random order. Prepare the data with "
                "series=Series(series_by=[...], order_by=...)"
            )
        starts = self._starts(rows.offsets)
        keep = (self.length, self.downsample, self.method)
        # They are indexed like numpy's arrays, which is all that training does with them.
        inputs: Any = tuple(WindowArray(array, starts, *keep) for array in rows.inputs)
        labels: Any = tuple(LabelArray(array, starts, self.length, label_function(self.label)) for array in rows.labels)
        return replace(rows, inputs=inputs, labels=labels, rows=starts.count, weights=None, offsets=None)

    def part_of(self, windows: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of this view within windows that are at least as long: the middle ones, or the last ones.

        Parameters
        ----------
        windows : array, shape (windows, rows, ...)
            Windows of at least ``length`` rows, not downsampled.

        Returns
        -------
        array, shape (windows, length, ...)
            Around the middle with ``label="middle"``, and otherwise the last rows.
        """
        rows = windows.shape[1]
        start = rows // 2 - self.length // 2 if self.label == "middle" else rows - self.length
        return windows[:, start : start + self.length]

    def inputs_of(self, windows: NDArray[Any]) -> NDArray[Any]:
        """Return the input of the network, of shape (windows, steps, ...), from windows as :meth:`part_of` takes."""
        return downsampled(self.part_of(windows), self.downsample, self.method)

    def labels_of(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return the labels of windows from those of the rows of windows as :meth:`part_of` takes."""
        return np.asarray(label_function(self.label)(self.part_of(labels)))

    def to_dict(self) -> dict[str, Any]:
        """Convert for JSON; a function of labels is left out, which predictions do not need."""
        values = {"length": self.length, "stride": self.step, "downsample": self.downsample, "method": self.method}
        return values if callable(self.label) else {**values, "label": self.label}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Windows:
        """Read the dictionary of :meth:`to_dict`."""
        return cls(**content)

    def _starts(self, offsets: NDArray[np.int64]) -> WindowStarts:
        return WindowStarts(offsets, self.length, self.step)

    def _input(self, group: TensorGroup) -> TensorGroup:
        if self.downsample > 1 and self.method == "mean" and group.dtype != "float32":
            raise TrainerError(
                f'method must be "every" for the input {group.name!r} of {group.dtype}, got "mean". Cast its columns '
                "to double if they are quantities"
            )
        column = TensorColumn(group.name, group.dtype, (self.steps, *group.shape))
        return TensorGroup(group.name, (column,))

    def _label(self, group: TensorGroup) -> TensorGroup:
        sample = np.zeros((2, self.length, *group.shape), group.dtype)
        result = np.asarray(label_function(self.label)(sample))
        if result.shape[:1] != (2,):
            raise TrainerError(
                f"label must be a function that returns one label for each of the windows, got shape {result.shape} "
                f"for labels of shape {sample.shape}. Reduce the second axis, as labels[:, -1] does"
            )
        dtype = "int64" if result.dtype.kind in "biu" else "float32"
        return TensorGroup(group.name, (TensorColumn(group.name, dtype, result.shape[1:]),))


def _offsets(shard: Shard) -> NDArray[np.int64]:
    if shard.lengths is None and shard.rows:
        raise TrainerError(
            "rows must be series in time order for windows, got rows in random order. Prepare the data with "
            "series=Series(series_by=[...], order_by=...)"
        )
    return np.concatenate([[0], np.cumsum(shard.lengths or (), dtype=np.int64)]).astype(np.int64)
