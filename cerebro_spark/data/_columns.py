"""Choose the columns that a network reads and predicts: check them before Spark starts a job, encode as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegralType,
    StringType,
    StructType,
)

from cerebro_spark.errors import ColumnError, InvalidArgumentError, LabelError
from optimizer.errors import nearest
from udfs.driver import is_numeric, quoted
from udfs.images import IMAGE_FIELDS
from udfs.shards import TensorColumn, TensorGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["FEATURES", "Chosen", "Source", "choose", "choose_features"]

FEATURES = "features"
"""Name of the input that joins the numbers and vectors of a plain sequence of columns."""

Kind = Literal["number", "vector", "tensor", "image"]


@dataclass(frozen=True, slots=True)
class Source:
    """Column of the user's DataFrame, and its encoding in the shards.

    Parameters
    ----------
    dtype : {"float32", "int64", "uint8"}
        Type of one number in the shards.
    depth : int
        Axes of a tensor: the nesting depth of its arrays; 1 for a vector.
    struct : bool
        Whether an image is Spark's struct, not encoded bytes.
    integer : bool
        Whether it is a feature of whole numbers, such as ids.
    """

    name: str
    kind: Kind
    dtype: str
    depth: int = 0
    struct: bool = False
    integer: bool = False

    @property
    def raw(self) -> Column:
        """The user's column."""
        return F.col(quoted(self.name))

    @property
    def encoded(self) -> Column:
        """Expression for the workers: a number, a flat array of numbers, or an encoded image; null where any is."""
        number = "float" if self.dtype == "float32" else "bigint"
        if self.kind == "number":
            return self.raw.cast(number)
        if self.kind == "vector":
            # vector_to_array fails on a null vector.
            return F.when(self.raw.isNotNull(), vector_to_array(self.raw, "float32"))
        if self.kind == "tensor":
            return self._flat(self.depth - 1).cast(f"array<{number}>")
        if self.struct:
            fields = F.struct(*(self.raw.getField(name).alias(name) for name in IMAGE_FIELDS))
            return F.when(self.raw.isNotNull(), fields)
        return self.raw

    @property
    def lengths(self) -> tuple[tuple[Column, Column], ...]:
        """Smallest and largest length per axis of a row's tensor."""
        if self.kind == "vector":
            length = F.when(self.raw.isNotNull(), F.size(vector_to_array(self.raw, "float32")))
            return ((length, length),)
        if self.kind != "tensor":
            return ()
        first = F.when(self.raw.isNotNull(), F.size(self.raw))
        lengths = [(first, first)]
        for axis in range(1, self.depth):
            inner = F.transform(self._flat(axis - 1), lambda part: F.when(part.isNotNull(), F.size(part)))
            lengths.append((F.array_min(inner), F.array_max(inner)))
        return tuple(lengths)

    def has_null(self, encoded: Column) -> Column:
        """Return whether the value is null, or a tensor with a null in it."""
        if self.kind != "tensor":
            return encoded.isNull()
        return encoded.isNull() | (F.size(F.array_compact(encoded)) < F.size(encoded))

    def not_finite(self, encoded: Column) -> Column | None:
        """Return whether a value has NaN or infinity as ``float32``; ``None`` for other types."""
        if self.dtype != "float32":
            return None
        if self.kind == "number":
            return F.isnan(encoded) | (F.abs(encoded) == float("inf"))
        # By Spark's order NaN is the largest number; both ends are found without a call per number.
        highest, lowest = F.array_max(encoded), F.array_min(encoded)
        return F.coalesce(F.isnan(highest) | (highest == float("inf")) | (lowest == float("-inf")), F.lit(False))

    @property
    def inexact(self) -> Column:
        """Whole number that ``float32`` cannot represent; null for all others."""
        whole, rounded = self.raw.cast("bigint"), self.raw.cast("float")
        # The largest ones round to 2**63, which the cast back turns into 2**63 - 1.
        same = (rounded < 2.0**63) & (rounded.cast("bigint") == whole)
        return F.when(self.raw.isNotNull() & ~same, whole)

    @property
    def zero_weight(self) -> Column:
        """True for rows with the weight 0, which do not count."""
        return F.coalesce(self.raw.cast("double") == 0, F.lit(False))

    @property
    def bad_weight(self) -> Column:
        """Value, as text, that is no weight as ``float32``: null, NaN, infinite, negative or too small; else null."""
        encoded = self.encoded
        is_weight = (encoded > 0) & (encoded < float("inf")) | self.zero_weight
        return F.when(~F.coalesce(is_weight, F.lit(False)), F.coalesce(self.raw.cast("string"), F.lit("null")))

    def column(self, shape: tuple[int, ...]) -> TensorColumn:
        """Return the column of the shards."""
        return TensorColumn(self.name, self.dtype, shape)

    def _flat(self, times: int) -> Column:
        column = self.raw
        for _ in range(times):
            column = F.flatten(column)
        return column


@dataclass(frozen=True, slots=True)
class Chosen:
    """Chosen inputs and labels by name, with the columns of each, and the rows' weights.

    Without ``weight``, all rows count alike.
    """

    inputs: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    weight: Source | None = None

    @property
    def content(self) -> tuple[Source, ...]:
        """Columns of the inputs and labels, without repetition: what decides where a row lies."""
        groups = (*self.inputs.values(), *self.labels.values())
        return tuple(dict.fromkeys(source for group in groups for source in group))

    @property
    def sources(self) -> tuple[Source, ...]:
        """Columns in order, with the weights last."""
        return (*self.content, *(() if self.weight is None else (self.weight,)))

    @property
    def weights(self) -> TensorGroup | None:
        """The weights' group in the shards."""
        return None if self.weight is None else TensorGroup(self.weight.name, (self.weight.column(()),))

    @property
    def rounded(self) -> tuple[Source, ...]:
        """Columns of whole numbers that some input reads as ``float32``."""
        mixed = (group for group in self.inputs.values() if any(source.dtype != "int64" for source in group))
        return tuple(dict.fromkeys(source for group in mixed for source in group if source.integer))

    @property
    def has_images(self) -> bool:
        """Return True for a column of images."""
        return any(source.kind == "image" for source in self.sources)

    def groups(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[tuple[TensorGroup, ...], tuple[TensorGroup, ...]]:
        """Group the columns into inputs and labels, once their shapes are known."""

        def group(name: str, sources: Sequence[Source], *, joined: bool) -> TensorGroup:
            return TensorGroup(name, tuple(source.column(shapes[source.name]) for source in sources), joined)

        inputs = (group(name, sources, joined=sources[0].kind in _JOINABLE) for name, sources in self.inputs.items())
        return tuple(inputs), tuple(group(name, sources, joined=False) for name, sources in self.labels.items())


_JOINABLE = ("number", "vector")


def choose(
    df: DataFrame,
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]],
    label_columns: Sequence[str],
    weight_column: str | None = None,
) -> Chosen:
    """Look up the columns and check that a network can read them, without a Spark job.

    Raises
    ------
    ColumnError, LabelError
        A column is missing, named twice, of two of features, labels and weights, or of a type without numbers.
    InvalidArgumentError
        No column is named, or the names are not a sequence of strings.
    """
    labels = _names(label_columns, "label_columns")
    inputs = _inputs(df, feature_columns)
    features = {source.name for sources in inputs.values() for source in sources}
    for name in labels:
        if name in features:
            raise LabelError(f"the label {name!r} is a feature too: a network would only have to copy it")
    weight = None if weight_column is None else _weight(df, weight_column, {*features, *labels})
    return Chosen(inputs, {name: (_label(df, name),) for name in labels}, weight)


def choose_features(df: DataFrame, inputs: Iterable[TensorGroup]) -> tuple[Source, ...]:
    """Look up the columns that a network was trained on, each once, without a Spark job.

    Raises
    ------
    ColumnError
        A column is missing, or of another kind than in training.
    """
    columns = dict.fromkeys(column for group in inputs for column in group.columns)
    sources = []
    for column in columns:
        source = _feature(df, column.name)
        if source.integer and column.dtype == "int64":
            source = _as_integers(source)
        rank = 3 if source.kind == "image" else source.depth
        if source.dtype != column.dtype or rank != len(column.shape):
            trained_on = f"{column.dtype}{list(column.shape) or ''}"
            raise ColumnError(
                f"column {column.name!r} is a {source.kind} of {source.dtype}; the network was trained on {trained_on}"
            )
        sources.append(source)
    return tuple(sources)


def _inputs(
    df: DataFrame, feature_columns: Sequence[str] | Mapping[str, Sequence[str]]
) -> dict[str, tuple[Source, ...]]:
    if isinstance(feature_columns, Mapping):
        if not feature_columns:
            raise InvalidArgumentError("feature_columns names no input")
        named = {
            name: _together(name, [_feature(df, column) for column in _names(columns, f"feature_columns[{name!r}]")])
            for name, columns in feature_columns.items()
        }
        # The shards hold a column once: if one input reads it as integers, the others read the same integers.
        exact = {
            source.name for group in named.values() for source in group if source.integer and source.dtype == "int64"
        }
        return {
            name: tuple(_as_integers(source) if source.name in exact else source for source in group)
            for name, group in named.items()
        }
    inputs: dict[str, tuple[Source, ...]] = {}
    sources = [_feature(df, name) for name in _names(feature_columns, "feature_columns")]
    joined = tuple(source for source in sources if source.kind in _JOINABLE)
    for source in sources:
        if source.kind in _JOINABLE:
            inputs.setdefault(FEATURES, joined)
        elif source.name == FEATURES and joined:
            raise ColumnError(
                f"the {source.kind} column {FEATURES!r} has the name of the input that joins the numbers: rename "
                "it, or name the inputs yourself: feature_columns={'numbers': [...], 'tensor': [...]}"
            )
        else:
            inputs[source.name] = (source,)
    return inputs


def _together(name: str, sources: list[Source]) -> tuple[Source, ...]:
    separate = [source for source in sources if source.kind not in _JOINABLE]
    if separate and len(sources) > 1:
        raise ColumnError(
            f"input {name!r}: the {separate[0].kind} column {separate[0].name!r} is an input of its own; only numbers "
            "and vectors are joined"
        )
    return tuple(map(_as_integers, sources)) if all(source.integer for source in sources) else tuple(sources)


def _as_integers(source: Source) -> Source:
    return replace(source, dtype="int64")


def _names(names: Iterable[str], argument: str) -> list[str]:
    if isinstance(names, str):
        raise InvalidArgumentError(f"{argument} is a sequence of names; write [{names!r}]")
    listed = list(names)
    if not listed:
        raise InvalidArgumentError(f"{argument} names no column")
    for name in listed:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"{argument} has {name!r}, which is not a column name")
        if listed.count(name) > 1:
            raise ColumnError(f"{argument} names column {name!r} twice")
    return listed


def _type(df: DataFrame, name: str, role: str) -> DataType:
    count = df.columns.count(name)
    if not count:
        raise ColumnError(
            f"{role} must be one of the columns {', '.join(df.columns)}, got {name!r}{nearest(name, df.columns)}"
        )
    if count > 1:
        raise ColumnError(f"{count} columns are named {name!r}: rename all but one")
    return df.schema[name].dataType


def _feature(df: DataFrame, name: str) -> Source:
    kind = _type(df, name, "feature")
    if isinstance(kind, BinaryType):
        return Source(name, "image", "uint8")
    if isinstance(kind, StructType) and set(kind.names) >= set(IMAGE_FIELDS):
        return Source(name, "image", "uint8", struct=True)
    if is_numeric(kind):
        return Source(name, "number", "float32", integer=isinstance(kind, IntegralType))
    tensor = _tensor(name, kind)
    if tensor is not None:
        return tensor
    remedy = (
        "index it with pyspark.ml.feature.StringIndexer, encode it with OneHotEncoder, or, where it holds paths of "
        "images, read their bytes with spark.read.format('binaryFile')"
        if isinstance(kind, StringType)
        else "cast it"
    )
    raise ColumnError(
        f"feature {name!r} must be a number, a vector, an array of numbers, encoded bytes or Spark's image struct, "
        f"got {kind.simpleString()}: {remedy}"
    )


def _label(df: DataFrame, name: str) -> Source:
    kind = _type(df, name, "label")
    if is_numeric(kind):
        return Source(name, "number", _number(kind))
    tensor = _tensor(name, kind)
    if tensor is not None:
        return tensor
    remedy = "pyspark.ml.feature.StringIndexer makes numbers of classes" if isinstance(kind, StringType) else "cast it"
    raise LabelError(
        f"label {name!r} must be a number, a Spark ML vector or an array of numbers, got {kind.simpleString()}: "
        f"{remedy}"
    )


def _weight(df: DataFrame, name: str, reserved: Collection[str]) -> Source:
    if not isinstance(name, str):
        raise InvalidArgumentError(f"weight_column must be the name of one column, got {name!r}.")
    kind = _type(df, name, "weight")
    if name in reserved:
        raise ColumnError(
            f"weight {name!r} must not be a feature or a label: leave it out of those, because rows to predict have "
            "no weight"
        )
    if not is_numeric(kind):
        raise ColumnError(f"weight {name!r} must be a number, got {kind.simpleString()}.")
    return Source(name, "number", "float32")


def _tensor(name: str, kind: DataType) -> Source | None:
    if isinstance(kind, VectorUDT):
        return Source(name, "vector", "float32", 1)
    depth = 0
    while isinstance(kind, ArrayType):
        kind, depth = kind.elementType, depth + 1
    if depth and is_numeric(kind):
        return Source(name, "tensor", _number(kind), depth)
    return None


def _number(kind: DataType) -> str:
    return "int64" if isinstance(kind, (IntegralType, BooleanType)) else "float32"
