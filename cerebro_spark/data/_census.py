"""Count a DataFrame in one pass: rows by bucket of the shuffle, bad values, shapes and a hash of the content."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cerebro_spark.errors import ColumnError, EmptyInputError, LabelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from cerebro_spark.data._columns import Chosen, Source

__all__ = ["BUCKETS", "COMPLETE", "WITHOUT_WEIGHT", "Census", "count", "defect_reasons", "encoded", "listed"]

BUCKETS = 256
"""Number of buckets that rows are sorted into: enough to run as many tasks, few enough to count each."""

COMPLETE = -1
"""Defect of a row that has none."""

WITHOUT_WEIGHT = -2
"""Defect of a row with the weight 0."""

_BAD_WEIGHT = -3


@dataclass(frozen=True, slots=True)
class Census:
    """Counts of a DataFrame's complete rows, and of the defects of the others.

    ``buckets`` are the complete rows of each bucket, ``content`` the sum of the rows' hashes, which are of their
    weights too, ``dropped`` the number of incomplete rows by reason. Rows of weight 0 are as if they were not there.
    ``label_samples`` are the smallest and the largest number of each label, and its largest fraction, if any.
    """

    buckets: tuple[int, ...]
    content: str
    shapes: Mapping[str, tuple[int, ...]]
    dropped: Mapping[str, int]
    zero_weights: int = 0
    label_samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of complete rows."""
        return sum(self.buckets)


def encoded(df: DataFrame, chosen: Chosen, seed: int, *others: Column) -> DataFrame:
    """Encode all rows as the shards hold them, incomplete ones included.

    Parameters
    ----------
    seed : int
        Seed of the key.
    *others : Column
        Further columns of `df` to keep, under names of their own.

    Returns
    -------
    DataFrame
        Columns ``c0``, ``c1``, ... of the sources, the lengths of their tensors (``n...``), whole numbers that
        ``float32`` would round (``r0``, ``r1``, ... of ``chosen.rounded``), ``key`` (a hash of the seed and the row
        without its weight), ``content`` (the same with its weight), ``bucket`` (of the key), ``defect``
        (:data:`COMPLETE`, or the first one) and, with weights, ``bad_weight`` (the text of a value that is none).
    """
    sources = chosen.sources
    lengths = [
        length.alias(f"n{place}_{axis}_{end}")
        for place, source in enumerate(sources)
        for axis, ends in enumerate(source.lengths)
        for end, length in zip(("min", "max"), ends, strict=True)
    ]
    inexact = [source.inexact.alias(f"r{place}") for place, source in enumerate(chosen.rounded)]
    columns = [F.col(f"c{place}") for place in range(len(sources))]
    # Hash the encoded values, so that equal numbers of another type give equal rows.
    key = F.xxhash64(F.lit(seed).cast("bigint"), *columns[: len(chosen.content)])
    weight = chosen.weight
    weighing = (
        [] if weight is None else [weight.bad_weight.alias("bad_weight"), weight.zero_weight.alias("zero_weight")]
    )
    content = F.col("key") if weight is None else F.xxhash64(F.col("key"), columns[-1])
    return (
        df.select(
            *(source.encoded.alias(f"c{place}") for place, source in enumerate(sources)),
            *lengths,
            *inexact,
            *weighing,
            *others,
        )
        .withColumns({"key": key, "defect": _defect(chosen, columns)})
        .withColumns({"content": content, "bucket": F.pmod(F.col("key"), F.lit(BUCKETS)).cast("int")})
    )


def count(rows: DataFrame, chosen: Chosen, errors: str, image_size: int | None, *, buckets: int = BUCKETS) -> Census:
    """Count the rows of :func:`encoded`, whose ``bucket`` is less than `buckets`.

    Raises
    ------
    EmptyInputError
        There is no row, no complete one, or none with a weight.
    ColumnError, LabelError
        A row has no id; values are null or not finite, with ``errors="raise"``; tensors of one column differ in shape,
        or are empty; ``float32`` would round whole numbers; a value is no weight.
    """
    sources = chosen.content
    ends = [(name, F.min if name.endswith("_min") else F.max) for name in rows.columns if name[0] in "nr"]
    if chosen.weight is not None:
        ends.append(("bad_weight", F.max))
    counts = (
        rows.groupBy("bucket", "defect")
        .agg(
            F.count("*").alias("rows"),
            # A sum of 64-bit hashes overflows 64 bits.
            F.sum(F.col("content").cast("decimal(20,0)")).alias("content"),
            *(end(name).alias(name) for name, end in ends),
            *_label_aggregates(chosen),
        )
        .collect()
    )
    if not counts:
        raise EmptyInputError("the DataFrame has no rows")
    _check_places(counts)
    if chosen.weight is not None:
        _check_weights(chosen.weight.name, counts)
    defects = {defect: sum(row["rows"] for row in counts if row["defect"] == defect) for defect in _defects(counts)}
    dropped = {_reason(sources, defect): rows for defect, rows in defects.items()}
    if dropped and errors == "raise":
        label = sources[min(defects) // 2].name in chosen.labels
        raise (LabelError if label else ColumnError)(
            f'{listed(dropped)}; errors="drop" leaves such rows out, pyspark.ml.feature.Imputer fills numbers in'
        )
    complete = [row for row in counts if row["defect"] == COMPLETE]
    zero_weights = sum(row["rows"] for row in counts if row["defect"] == WITHOUT_WEIGHT)
    if not complete:
        if chosen.weight is not None and zero_weights:
            dropped[f"weight 0 in {chosen.weight.name!r}"] = zero_weights
        raise EmptyInputError(f"the DataFrame must have complete rows, got none ({listed(dropped)}).")
    _check_exact(chosen, complete)
    by_bucket = {row["bucket"]: row["rows"] for row in complete}
    shapes = {source.name: _shape(source, place, complete) for place, source in enumerate(sources)}
    if image_size is not None:
        shapes |= {source.name: (3, image_size, image_size) for source in sources if source.kind == "image"}
    content = str(sum(int(row["content"]) for row in complete))
    samples = {source.name: _label_samples(place, complete) for place, source in _numeric_labels(chosen)}
    bucket_rows = tuple(by_bucket.get(bucket, 0) for bucket in range(buckets))
    return Census(bucket_rows, content, shapes, dropped, zero_weights, samples)


def listed(dropped: Mapping[str, int]) -> str:
    """Format reasons and their numbers of rows."""
    return ", ".join(f"{reason}: {rows:,} row{'' if rows == 1 else 's'}" for reason, rows in dropped.items())


def _numeric_labels(chosen: Chosen) -> list[tuple[int, Source]]:
    """List the labels that are numbers or tensors of whole numbers, with their places among the columns."""
    return [
        (place, source)
        for place, source in enumerate(chosen.content)
        if source.name in chosen.labels and (source.kind == "number" or source.dtype == "int64")
    ]


def _label_aggregates(chosen: Chosen) -> Iterator[Column]:
    """Yield the smallest and the largest number of each label in a bucket, and its largest fraction."""
    for place, source in _numeric_labels(chosen):
        column = F.col(f"c{place}")
        least, most = (column, column) if source.kind == "number" else (F.array_min(column), F.array_max(column))
        yield F.min(least).cast("double").alias(f"least{place}")
        yield F.max(most).cast("double").alias(f"most{place}")
        if source.dtype == "float32":
            yield F.max(F.when(column != F.floor(column), column)).cast("double").alias(f"fraction{place}")


def _label_samples(place: int, buckets: Sequence[Row]) -> tuple[float, ...]:
    """Merge the aggregates of a label over the buckets, without repetitions."""
    samples = []
    for name, choose in ((f"least{place}", min), (f"most{place}", max), (f"fraction{place}", max)):
        values = [row[name] for row in buckets if name in row and row[name] is not None]
        if values:
            samples.append(choose(values))
    return tuple(dict.fromkeys(samples))


def _check_places(counts: Iterable[Row]) -> None:
    rows = sum(row["rows"] for row in counts if row["bucket"] < 0)
    if rows:
        raise ColumnError(f"null in the id column: {rows:,} row{'' if rows == 1 else 's'}; each record needs an id")


def _check_exact(chosen: Chosen, complete: Sequence[Row]) -> None:
    for place, source in enumerate(chosen.rounded):
        inexact = [row[f"r{place}"] for row in complete if row[f"r{place}"] is not None]
        if inexact:
            raise ColumnError(
                f"column {source.name!r} has whole numbers that float32 rounds, such as {max(inexact)}: ids go "
                f"into an input of whole numbers alone, feature_columns={{'ids': [{source.name!r}], ...}}, which keeps "
                "them; a quantity, which may be rounded, is cast to double first"
            )


def _check_weights(name: str, counts: Iterable[Row]) -> None:
    bad = [row for row in counts if row["defect"] == _BAD_WEIGHT]
    if bad:
        rows = sum(row["rows"] for row in bad)
        raise ColumnError(
            f"weight column {name!r} has {max(row['bad_weight'] for row in bad)} ({rows:,} such row"
            f"{'' if rows == 1 else 's'}): a weight is a finite float32 and not negative; 0 leaves a row out. Correct "
            f"it, or leave such rows out with df.where(...); df.fillna(0.0, [{name!r}]) does it for null and NaN"
        )
    if all(row["defect"] == WITHOUT_WEIGHT for row in counts):
        raise EmptyInputError(f"every row has the weight 0 in {name!r}")


def _defect(chosen: Chosen, columns: Sequence[Column]) -> Column:
    """Return the number of a row's first defect, so that each row counts once."""
    tests = []
    if chosen.weight is not None:
        tests += [(F.col("bad_weight").isNotNull(), _BAD_WEIGHT), (F.col("zero_weight"), WITHOUT_WEIGHT)]
    for place, (source, column) in enumerate(zip(chosen.content, columns, strict=False)):
        tests.append((source.has_null(column), 2 * place))
        not_finite = source.not_finite(column)
        if not_finite is not None:
            tests.append((not_finite, 2 * place + 1))
    (first, number), *others = tests
    cases = reduce(lambda column, test: column.when(*test), others, F.when(first, number))
    return cases.otherwise(COMPLETE)


def _defects(counts: Iterable[Row]) -> list[int]:
    return sorted({row["defect"] for row in counts if row["defect"] >= 0})


def defect_reasons(chosen: Chosen) -> dict[int, str]:
    """Return the reason of each defect that a row may have, by its number."""
    sources = chosen.content
    return {defect: _reason(sources, defect) for defect in range(2 * len(sources))}


def _reason(sources: Sequence[Source], defect: int) -> str:
    name = sources[defect // 2].name
    return f"NaN or infinite in {name!r}" if defect % 2 else f"null in {name!r}"


def _shape(source: Source, place: int, complete: Sequence[Row]) -> tuple[int, ...]:
    shape = []
    for axis in range(len(source.lengths)):
        lowest = min((row[f"n{place}_{axis}_min"] or 0) for row in complete)
        highest = max((row[f"n{place}_{axis}_max"] or 0) for row in complete)
        if lowest != highest:
            values = "vectors" if source.kind == "vector" else f"arrays at depth {axis + 1}"
            raise ColumnError(
                f"column {source.name!r}: {values} are {lowest} to {highest} long; a network reads tensors of one "
                "shape: pad or cut them"
            )
        if not highest:
            raise ColumnError(f"column {source.name!r}: its tensors hold no numbers")
        shape.append(highest)
    return tuple(shape)
