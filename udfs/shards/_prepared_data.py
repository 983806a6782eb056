"""The description of a prepared dataset: a value that explains itself and lies beside the shards."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from optimizer.arguments import choice_error
from optimizer.errors import CerebroError, InvalidArgumentError, nearest
from optimizer.notebook import ExplainedInNotebooks
from udfs.documents import DamagedError, document, typed, write_document
from udfs.names import check_name
from udfs.shards._groups import TensorColumn, TensorGroup
from udfs.shards._series import Series
from udfs.shards._shard import Shard
from udfs.store import Store
from udfs.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from numpy.typing import NDArray

    from udfs.shards._row_view import RowView

__all__ = [
    "DESCRIPTION",
    "FOLDER",
    "SPLITS",
    "Part",
    "PreparedData",
    "ShardError",
    "read_description",
    "shard_path",
]

DataT = TypeVar("DataT")

FOLDER = "prepared"
DESCRIPTION = "_prepared.json"
SPLITS = ("train", "validation")
"""The two parts of the rows; Spark's job knows them by their index."""

_USES = dict(zip(SPLITS, ("training", "validation"), strict=True))

# Of what lies in the store: another one cannot be read. A release that knows no weights is not to ignore them.
_VERSION = 1
_WEIGHTED = 2
_IN_SERIES = 4  # version 3 is that of growing data
_LISTED = 16


class ShardError(CerebroError, ValueError):
    """A prepared dataset is missing, or differs from its description."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """File of a shard, with changes of its rows by later batches.

    ``keep`` marks rows that still count, by default all. ``corrected`` has for a column the rows of the file that have
    a new value, in order, and the values.
    """

    path: tuple[str, ...]
    rows: int
    digest: str
    keep: NDArray[np.bool_] | None = None
    corrected: Mapping[str, tuple[NDArray[np.int64], NDArray[Any]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedData(ExplainedInNotebooks):
    """DataFrame that was shuffled once and written as shards for training.

    Parameters
    ----------
    store : Store
        Store of the shards.
    name : str
        Folder ``prepared/<name>`` of the store, which holds the shards.
    inputs, labels : tuple of TensorGroup
        Inputs of the network, and the values that it predicts.
    shards : tuple of Shard
        Shards with rows.
    seed : int
        Seed of the shuffle.
    test_fraction : float
        Share of the rows held out of training.
    fingerprint : str
        Hash of the rows, the columns and all that decides which row lies where: equal ones have equal shards.
    dropped : mapping of str to int
        Numbers of rows that were left out, by reason.
    weights : TensorGroup, optional
        Column with the weights of the rows, all of them more than 0. Default ``None``: all rows count alike.
    zero_weights : int
        Rows that were left out because their weight is 0: they are as if they were not there, so that data that differ
        in nothing else are equal. Default 0.
    label_samples : mapping of str to tuple of float
        Smallest and largest number of each label over all rows, followed by a number with a fraction if there is one.
        Empty for data that an earlier release prepared.
    series : Series, optional
        Columns of the series that the shards keep whole. Default ``None``: rows are shuffled one by one.
    """

    store: Store
    name: str
    inputs: tuple[TensorGroup, ...]
    labels: tuple[TensorGroup, ...]
    shards: tuple[Shard, ...]
    seed: int
    test_fraction: float
    fingerprint: str
    dropped: Mapping[str, int] = field(default_factory=dict, hash=False)
    weights: TensorGroup | None = None
    zero_weights: int = field(default=0, compare=False)
    label_samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict, compare=False)
    series: Series | None = None

    def __post_init__(self) -> None:
        # An increment lies in a folder of the data that it belongs to.
        for folder in self.name.split("/"):
            check_name(folder, "prepared data")
        check_name(self.fingerprint, "a fingerprint of rows")
        for shard in self.shards:
            if shard.path != shard_path(_checked(shard.split), shard.partition):
                raise ShardError(f"a shard of {self.name!r} is said to be in {shard.path!r}: prepare it again")

    @property
    def partitions(self) -> tuple[int, ...]:
        """Numbers of the shards to train on."""
        return tuple(shard.partition for shard in self.shards if shard.split == "train")

    @property
    def groups(self) -> tuple[TensorGroup, ...]:
        """Inputs and labels, and last the weights where there are any."""
        return (*self.inputs, *self.labels, *(() if self.weights is None else (self.weights,)))

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Shape and type of a row of each input."""
        return tuple(TensorSpec(group.shape, group.dtype) for group in self.inputs)

    @property
    def weight_column(self) -> str | None:
        """Name of the column with the weights of the rows; ``None`` where all count alike."""
        return None if self.weights is None else self.weights.name

    @property
    def columns(self) -> tuple[TensorColumn, ...]:
        """The columns of a shard's file, each once."""
        return columns_of(self.groups)

    def viewed(self, view: RowView | None) -> Self:
        """Describe the data as a configuration reads them: other inputs, labels or numbers of rows.

        The result is for checks. Load rows from the data themselves, with ``view=``.

        Raises
        ------
        udfs.training.TrainerError, InvalidArgumentError
            The data are not suitable for the view.
        """
        if view is None:
            return self
        self._check_span(view)
        inputs, labels = view.groups(self.inputs, self.labels)
        shards = tuple(replace(shard, rows=view.count(shard)) for shard in self.shards)
        if not any(shard.rows for shard in shards if shard.split == "train"):
            longest = max((max(shard.lengths or (0,)) for shard in self.shards if shard.split == "train"), default=0)
            raise InvalidArgumentError(
                f"windows must not be longer than the longest series of the training rows, {longest} rows, got "
                f"{view.span}. Choose shorter windows"
            )
        samples = {} if view.maps_labels else self.label_samples
        return replace(self, inputs=inputs, labels=labels, shards=shards, label_samples=samples)

    def _check_span(self, view: RowView) -> None:
        if view.span == 1:
            return
        if self.series is None:
            raise InvalidArgumentError(
                f"view must read single rows of {self.name!r}, whose rows were shuffled and split at random, got "
                f"{view}. Windows of such rows are in no order, and overlap between training and validation: prepare "
                "the data with series=Series(series_by=[...], order_by=...)"
            )
        if self.series.embargo is not None and view.span > self.series.embargo:
            raise InvalidArgumentError(
                f"windows must not be longer than the embargo of the split by time, {self.series.embargo} rows, got "
                f"{view.span}. Prepare the data with Series(split='time', embargo={view.span}), or choose shorter "
                "windows"
            )

    def rows(self, split: str) -> int:
        """Return the number of rows of a split.

        Parameters
        ----------
        split : {"train", "validation"}
            Name of the split.
        """
        return sum(shard.rows for shard in self.shards if shard.split == _checked(split))

    def shard(self, split: str, partition: int) -> Shard:
        """Return the shard of a partition; one without rows where too few rows are held out for all partitions.

        Raises
        ------
        ShardError
            There is no such split or partition.
        """
        for shard in self.shards:
            if (shard.split, shard.partition) == (split, partition):
                return shard
        if partition not in self.partitions:
            raise ShardError(f"{self.name!r} has no partition {partition}; partitions: 0 to {max(self.partitions)}")
        lengths = None if self.series is None else ()
        return Shard(_checked(split), partition, shard_path(split, partition), 0, 0, lengths=lengths)

    def check(self) -> None:
        """Check that there are rows to train on, and that every shard's file is there.

        Raises
        ------
        ShardError
            A training shard has no rows, or files are gone.
        """
        empty = [shard.path for shard in self.shards if not shard.rows]
        if empty or not self.partitions:
            listed = ", ".join(empty[:_LISTED]) or "none to train on"
            raise ShardError(
                f"{self.name!r} has shards without rows ({listed}): prepare it again, with a lower num_shards"
            )
        if self.missing:
            raise ShardError(
                f"shards of {self.name!r} are gone from {self.store.uri}: {', '.join(self.missing[:_LISTED])}; prepare "
                "it again"
            )

    @property
    def missing(self) -> tuple[str, ...]:
        """Paths of the shards whose files are not in the store."""
        there = {f"{split}/{file}" for split in SPLITS for file in self.store.list(FOLDER, self.name, split)}
        return tuple(shard.path for shard in self.shards if shard.path not in there)

    def path(self, shard: Shard) -> tuple[str, ...]:
        """Return the parts of a shard's path within the store."""
        return (FOLDER, self.name, shard.path)

    @property
    def remedy(self) -> str:
        """Advice for a file that is damaged."""
        return (
            "prepare the same rows again, which writes it anew: GridSearch.prepare(df), "
            "cerebro_spark.data.prepare(df, ...), or fit(df)"
        )

    def parts(self, shard: Shard) -> tuple[Part, ...]:
        """List the files that a shard's rows are in, in order.

        Raises
        ------
        ShardError, udfs.store.StoreError
            The changes in later batches of growing data cannot be read.
        """
        return (Part(self.path(shard), shard.rows, shard.digest),) if shard.rows else ()

    def url(self, split: str) -> str:
        """Return the folder of a split's Parquet files, for other readers: ``petastorm.make_batch_reader``, Spark."""
        return self.store.url(FOLDER, self.name, _checked(split))

    def explain(self) -> str:
        """Describe the splits, the columns and the shards in words and a table."""
        rows = " and ".join(f"{self.rows(split):,} rows for {use}" for split, use in _USES.items())
        how = "shuffled" if self.series is None else "in series that are placed"
        lines = [f"prepared {self.name!r} in {self.store.uri}: {rows}, {how} by seed {self.seed}"]
        for what, groups in (("input", self.inputs), ("label", self.labels)):
            for group in groups:
                names = ", ".join(column.name for column in group.columns)
                lines.append(f"  {what} {group.name!r}: {group.dtype} {group.shape} of {names}")
        if self.weights is not None:
            lines.append(
                f"  weights of the rows: {self.weight_column}; left out: {self.zero_weights:,} rows of weight 0"
            )
        if self.series is not None:
            lines.append(f"  {self.series.explain()}")
        lines.append(f"  {'partition':>9} {'training rows':>13} {'validation rows':>15} {'MiB':>9}")
        for partition in self.partitions[:_LISTED]:
            train, validation = (self.shard(split, partition) for split in SPLITS)
            size = (train.nbytes + validation.nbytes) / 2**20
            lines.append(f"  {partition:>9} {train.rows:>13,} {validation.rows:>15,} {size:>9,.1f}")
        if len(self.partitions) > _LISTED:
            lines.append(f"  and {len(self.partitions) - _LISTED} more")
        lines += [f"  left out: {count:,} rows, {reason}" for reason, count in self.dropped.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Convert for JSON. The keys stay those of the first release: stores outlive programs."""
        zero_weights = {"zero_weights": self.zero_weights} if self.zero_weights else {}
        samples = {name: list(values) for name, values in self.label_samples.items()}
        weights = {} if self.weights is None else {"weights": asdict(self.weights), **zero_weights}
        return {
            "version": _IN_SERIES if self.series else _VERSION if self.weights is None else _WEIGHTED,
            "store": self.store.uri,
            "name": self.name,
            "inputs": [asdict(group) for group in self.inputs],
            "labels": [asdict(group) for group in self.labels],
            "shards": [_facts(shard) for shard in self.shards],
            "seed": self.seed,
            "validation": self.test_fraction,
            "fingerprint": self.fingerprint,
            "dropped": dict(self.dropped),
            **weights,
            **({"label_samples": samples} if samples else {}),
            **({} if self.series is None else {"series": self.series.to_dict()}),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote.

        Raises
        ------
        ShardError
            It was written by another version, or by something else.
        """
        if content.get("version") not in {_VERSION, _WEIGHTED, _IN_SERIES}:
            raise ShardError(
                f"a preparation must be of version {_VERSION}, {_WEIGHTED} or {_IN_SERIES}, got "
                f"{content.get('version')!r}. Prepare it again"
            )
        try:
            samples = typed(content, "label_samples", dict) if "label_samples" in content else {}
            return cls(
                Store(typed(content, "store", str)),
                typed(content, "name", str),
                tuple(_group(group) for group in typed(content, "inputs", list)),
                tuple(_group(group) for group in typed(content, "labels", list)),
                tuple(_shard(shard) for shard in typed(content, "shards", list)),
                typed(content, "seed", int),
                typed(content, "validation", float),
                typed(content, "fingerprint", str),
                {str(reason): typed(content["dropped"], reason, int) for reason in typed(content, "dropped", dict)},
                _group(typed(content, "weights", dict)) if content["version"] == _WEIGHTED else None,
                typed(content, "zero_weights", int) if "zero_weights" in content else 0,
                {str(name): tuple(map(float, values)) for name, values in samples.items()},
                Series.from_dict(typed(content, "series", dict)) if content["version"] == _IN_SERIES else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CerebroError):
                raise
            raise ShardError(f"the description of a preparation is damaged ({error!r}): prepare it again") from error

    def save(self) -> None:
        """Write the description beside the shards, once they are all there.

        Raises
        ------
        udfs.store.StoreError
            The store cannot be written.
        """
        write_document(self.store, self.to_dict(), FOLDER, self.name, DESCRIPTION)

    @classmethod
    def load(cls, store: Store, name: str) -> Self:
        """Read what was prepared under a name; the store may lie elsewhere than when it was written.

        Raises
        ------
        ShardError
            Nothing was prepared under the name, or its description is damaged.
        """
        return read_description(store, name, cls.from_dict)


def read_description(store: Store, name: str, read: Callable[[Mapping[str, Any]], DataT]) -> DataT:
    """Read the description of what was prepared under a name; errors are those of :meth:`PreparedData.load`.

    Raises
    ------
    ShardError
        As :meth:`PreparedData.load`.
    """
    if not store.exists(FOLDER, check_name(name, "prepared data"), DESCRIPTION):
        known = [other for other in store.list(FOLDER) if store.exists(FOLDER, other, DESCRIPTION)]
        listed = f", one of {', '.join(known)}" if known else ""
        raise ShardError(f"name must be of prepared data in {store.uri}{listed}, got {name!r}{nearest(name, known)}")
    try:
        with document(store, FOLDER, name, DESCRIPTION, remedy="prepare it again") as description:
            return read({**description, "store": store.uri, "name": name})
    except DamagedError as error:
        raise ShardError(str(error)) from error


def shard_path(split: str, partition: int) -> str:
    """Return a shard's path, relative to the folder of its dataset."""
    return f"{split}/shard-{partition:05d}.parquet"


def columns_of(groups: Iterable[TensorGroup]) -> tuple[TensorColumn, ...]:
    """Return the columns of groups, each once: two inputs may share one."""
    return tuple(dict.fromkeys(column for group in groups for column in group.columns))


def _checked(split: str) -> str:
    if split not in SPLITS:
        raise ShardError(choice_error("split", split, SPLITS))
    return split


def _group(content: Mapping[str, Any]) -> TensorGroup:
    return TensorGroup(
        typed(content, "name", str),
        tuple(map(_column, typed(content, "columns", list))),
        typed(content, "joined", bool),
    )


def _column(content: Mapping[str, Any]) -> TensorColumn:
    shape = typed(content, "shape", list)
    if not all(type(size) is int and size >= 0 for size in shape):
        raise TypeError(f"a tensor has the shape {shape}")
    if np.dtype(typed(content, "dtype", str)).kind not in "fiu":
        raise TypeError(f"a tensor has numbers of the type {content['dtype']!r}")
    return TensorColumn(typed(content, "name", str), typed(content, "dtype", str), tuple(shape))


def _shard(content: Mapping[str, Any]) -> Shard:
    counts = {name: typed(content, name, int) for name in ("partition", "rows", "nbytes")}
    if min(counts.values()) < 0:
        raise ValueError(f"a shard has {counts}")
    digest = typed(content, "digest", str) if "digest" in content else ""
    lengths = tuple(typed(content, "lengths", list)) if "lengths" in content else None
    if lengths is not None and (not all(type(length) is int for length in lengths) or sum(lengths) != counts["rows"]):
        raise ValueError(f"a shard of {counts['rows']} rows has series of other lengths")
    return Shard(
        typed(content, "split", str), path=typed(content, "path", str), digest=digest, lengths=lengths, **counts
    )


def _facts(shard: Shard) -> dict[str, Any]:
    optional = {"digest": "", "lengths": None}
    return {name: value for name, value in asdict(shard).items() if name not in optional or value != optional[name]}
