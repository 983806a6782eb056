"""Choose the columns that a network reads and predicts: checked before Spark starts a job, encoded as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know
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
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["FEATURES", "Chosen", "Source", "choose", "choose_features"]

FEATURES = "features"
"""Name of the input that the numbers and vectors of a plain sequence of columns make together."""

Kind = Literal["number", "vector", "tensor", "image"]


@dataclass(frozen=True, slots=True)
class Source:
    """A column of the user's, and its encoding in the shards.

    Parameters
    ----------
    name : str
    kind : {"number", "vector", "tensor", "image"}
    dtype : {"float32", "int64", "uint8"}
        Of one number in the shards.
    depth : int
        Axes of a tensor: how deep the arrays are nested. 1 for a vector.
    struct : bool
        Whether an image is Spark's struct, not encoded bytes.
    integer : bool
        Whether it is a feature of whole numbers, which may be ids.
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
            # A null vector has to be kept from vector_to_array, which fails on it.
            return F.when(self.raw.isNotNull(), vector_to_array(self.raw, "float32"))
        if self.kind == "tensor":
            return self._flat(self.depth - 1).cast(f"array<{number}>")
        if self.struct:
            fields = F.struct(*(self.raw.getField(name).alias(name) for name in IMAGE_FIELDS))
            return F.when(self.raw.isNotNull(), fields)
        return self.raw

    @property
    def lengths(self) -> tuple[tuple[Column, Column], ...]:
        """Per axis of a row's tensor, the smallest and the largest length."""
        if self.kind == "vector":
            length = F.when(self.raw.isNotNull(), F.size(vector_to_array(self.raw, "float32")))
            return ((length, length),)
        if self.kind != "tensor":
            return ()
        first = F.when(self.raw.isNotNull(), F.size(self.raw))
        found = [(first, first)]
        for axis in range(1, self.depth):
            inner = F.transform(self._flat(axis - 1), lambda part: F.when(part.isNotNull(), F.size(part)))
            found.append((F.array_min(inner), F.array_max(inner)))
        return tuple(found)

    def has_null(self, encoded: Column) -> Column:
        """Whether there is no value, or a tensor with a null in it."""
        if self.kind != "tensor":
            return encoded.isNull()
        return encoded.isNull() | (F.size(F.array_compact(encoded)) < F.size(encoded))

    def not_finite(self, encoded: Column) -> Column | None:
        """Whether a value that is there has a NaN or an infinite number in it, as ``float32``; nothing for others."""
        if self.dtype != "float32":
            return None
        if self.kind == "number":
            return F.isnan(encoded) | (F.abs(encoded) == float("inf"))
        # By Spark's order NaN is the largest number; both ends are found without a call per number.
        highest, lowest = F.array_max(encoded), F.array_min(encoded)
        return F.coalesce(F.isnan(highest) | (highest == float("inf")) | (lowest == float("-inf")), F.lit(False))

    @property
    def inexact(self) -> Column:
        """A whole number that ``float32`` does not hold, null for others."""
        whole, rounded = self.raw.cast("bigint"), self.raw.cast("float")
        # The largest ones become 2**63, whose way back ends one below it.
        same = (rounded < 2.0**63) & (rounded.cast("bigint") == whole)
        return F.when(self.raw.isNotNull() & ~same, whole)

    def column(self, shape: tuple[int, ...]) -> TensorColumn:
        """Return the column of the shards."""
        return TensorColumn(self.name, self.dtype, shape)

    def _flat(self, times: int) -> Column:
        found = self.raw
        for _ in range(times):
            found = F.flatten(found)
        return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """Inputs and labels by name, each with its columns.

    Parameters
    ----------
    inputs, labels : mapping of str to sequence of Source
    """

    inputs: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[Source, ...]:
        """All columns, each once."""
        return tuple(dict.fromkeys(one for part in (self.inputs, self.labels) for own in part.values() for one in own))

    @property
    def rounded(self) -> tuple[Source, ...]:
        """Whole numbers that some input reads as ``float32``."""
        mixed = (own for own in self.inputs.values() if any(one.dtype != "int64" for one in own))
        return tuple(dict.fromkeys(one for own in mixed for one in own if one.integer))

    @property
    def has_images(self) -> bool:
        """Whether a column holds images."""
        return any(source.kind == "image" for source in self.sources)

    def groups(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[tuple[TensorGroup, ...], tuple[TensorGroup, ...]]:
        """Group the columns into inputs and labels, once their shapes are known."""

        def group(name: str, sources: Sequence[Source], *, joined: bool) -> TensorGroup:
            return TensorGroup(name, tuple(one.column(shapes[one.name]) for one in sources), joined)

        inputs = (group(name, own, joined=own[0].kind in _SIDE_BY_SIDE) for name, own in self.inputs.items())
        return tuple(inputs), tuple(group(name, own, joined=False) for name, own in self.labels.items())


_SIDE_BY_SIDE = ("number", "vector")


def choose(
    df: DataFrame, feature_columns: Sequence[str] | Mapping[str, Sequence[str]], label_columns: Sequence[str]
) -> Chosen:
    """Look up the columns and check that a network can read them; no job is run.

    Raises
    ------
    ColumnError, LabelError
        A column is missing, named twice, a feature and a label, or of a type that holds no numbers.
    InvalidArgumentError
        No columns are named, or not as they should be.
    """
    labels = _names(label_columns, "label_columns")
    inputs = _inputs(df, feature_columns)
    features = {one.name for own in inputs.values() for one in own}
    for name in labels:
        if name in features:
            raise LabelError(f"the label {name!r} is a feature too: a network would only have to copy it")
    return Chosen(inputs, {name: (_label(df, name),) for name in labels})


def choose_features(df: DataFrame, inputs: Iterable[TensorGroup]) -> tuple[Source, ...]:
    """Look up the columns that a network was trained on, each once; no job is run.

    Raises
    ------
    ColumnError
        One is missing, or of another kind than it was.
    """
    columns = dict.fromkeys(column for group in inputs for column in group.columns)
    found = []
    for column in columns:
        source = _feature(df, column.name)
        if source.integer and column.dtype == "int64":
            source = _whole(source)
        rank = 3 if source.kind == "image" else source.depth
        if source.dtype != column.dtype or rank != len(column.shape):
            was = f"{column.dtype}{list(column.shape) or ''}"
            raise ColumnError(
                f"column {column.name!r} is a {source.kind} of {source.dtype}; the network was trained on {was}"
            )
        found.append(source)
    return tuple(found)


def _inputs(
    df: DataFrame, feature_columns: Sequence[str] | Mapping[str, Sequence[str]]
) -> dict[str, tuple[Source, ...]]:
    if isinstance(feature_columns, Mapping):
        if not feature_columns:
            raise InvalidArgumentError("feature_columns names no input")
        named = {
            name: _together(name, [_feature(df, one) for one in _names(own, f"feature_columns[{name!r}]")])
            for name, own in feature_columns.items()
        }
        # A column is in the shards once: one that is whole for one input is read from there by the others too.
        whole = {one.name for own in named.values() for one in own if one.integer and one.dtype == "int64"}
        return {name: tuple(_whole(one) if one.name in whole else one for one in own) for name, own in named.items()}
    inputs: dict[str, tuple[Source, ...]] = {}
    sources = [_feature(df, name) for name in _names(feature_columns, "feature_columns")]
    side_by_side = tuple(one for one in sources if one.kind in _SIDE_BY_SIDE)
    for one in sources:
        if one.kind in _SIDE_BY_SIDE:
            inputs.setdefault(FEATURES, side_by_side)
        elif one.name == FEATURES and side_by_side:
            raise ColumnError(
                f"the {one.kind} column {FEATURES!r} has the name of the input that the numbers make together: rename "
                "it, or name the inputs yourself: feature_columns={'numbers': [...], 'tensor': [...]}"
            )
        else:
            inputs[one.name] = (one,)
    return inputs


def _together(name: str, sources: list[Source]) -> tuple[Source, ...]:
    odd = [one for one in sources if one.kind not in _SIDE_BY_SIDE]
    if odd and len(sources) > 1:
        raise ColumnError(
            f"input {name!r}: the {odd[0].kind} column {odd[0].name!r} is an input of its own; only numbers and "
            "vectors are put side by side"
        )
    return tuple(map(_whole, sources)) if all(one.integer for one in sources) else tuple(sources)


def _whole(source: Source) -> Source:
    return replace(source, dtype="int64")


def _names(names: Iterable[str], argument: str) -> list[str]:
    if isinstance(names, str):
        raise InvalidArgumentError(f"{argument} is a sequence of names; write [{names!r}]")
    listed = list(names)
    if not listed:
        raise InvalidArgumentError(f"{argument} names no column")
    for name in listed:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"{argument} has {name!r}, which is no name of a column")
        if listed.count(name) > 1:
            raise ColumnError(f"{argument} names column {name!r} twice")
    return listed


def _type(df: DataFrame, name: str, what: str) -> DataType:
    count = df.columns.count(name)
    if not count:
        raise ColumnError(
            f"no column {name!r} for a {what}{nearest(name, df.columns)}; columns: {', '.join(df.columns)}"
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
    found = _tensor(name, kind)
    if found is not None:
        return found
    remedy = (
        "index it with pyspark.ml.feature.StringIndexer, encode it with OneHotEncoder, or, where it holds paths of "
        "images, read their bytes with spark.read.format('binaryFile')"
        if isinstance(kind, StringType)
        else "a feature is a number, a vector, an array of numbers, encoded bytes or Spark's struct of an image"
    )
    raise ColumnError(f"feature {name!r} is {kind.simpleString()}: {remedy}")


def _label(df: DataFrame, name: str) -> Source:
    kind = _type(df, name, "label")
    if is_numeric(kind):
        return Source(name, "number", _number(kind))
    found = _tensor(name, kind)
    if found is not None:
        return found
    remedy = (
        "pyspark.ml.feature.StringIndexer makes numbers of classes"
        if isinstance(kind, StringType)
        else "a label is a number, a Spark ML vector or an array of numbers"
    )
    raise LabelError(f"label {name!r} is {kind.simpleString()}: {remedy}")


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
