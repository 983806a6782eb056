"""Count a DataFrame in one pass: rows by bucket of the shuffle, bad values, shapes, a hash of all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

from cerebro_spark.errors import ColumnError, EmptyInputError, LabelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from cerebro_spark.data._columns import Chosen, Source

__all__ = ["BUCKETS", "Census", "count", "encoded", "listed"]

BUCKETS = 256
"""Number of buckets that rows are sorted into: enough for as many tasks, few enough to count one by one."""

_COMPLETE = -1


@dataclass(frozen=True, slots=True)
class Census:
    """Counts of a DataFrame's complete rows, and of the defects of the others.

    Parameters
    ----------
    buckets : tuple of int
        Rows of each bucket.
    content : str
        The sum of the rows' hashes.
    shapes : mapping of str to tuple of int
        Of the columns' tensors, images excepted.
    dropped : mapping of str to int
        Reasons why rows are not complete, and how many rows.
    """

    buckets: tuple[int, ...]
    content: str
    shapes: Mapping[str, tuple[int, ...]]
    dropped: Mapping[str, int]

    @property
    def rows(self) -> int:
        """Complete rows."""
        return sum(self.buckets)


def encoded(df: DataFrame, chosen: Chosen, seed: int) -> DataFrame:
    """Encode the rows as the shards hold them, complete or not.

    Returns
    -------
    DataFrame
        Columns ``c0``, ``c1``, ... of the sources, the lengths of their tensors (``n...``), whole numbers that would be
        rounded (``r0``, ``r1``, ... of ``chosen.rounded``), ``key`` (a hash of the row and the
        seed), ``bucket`` (of the key) and ``defect``: -1 for a complete row.
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
    # What is hashed is what is written, so that the same numbers in another type are the same rows.
    key = F.xxhash64(F.lit(seed).cast("bigint"), *columns)
    return (
        df.select(*(source.encoded.alias(f"c{place}") for place, source in enumerate(sources)), *lengths, *inexact)
        .withColumns({"key": key, "defect": _defect(sources, columns)})
        .withColumn("bucket", F.pmod(F.col("key"), F.lit(BUCKETS)).cast("int"))
    )


def count(rows: DataFrame, chosen: Chosen, errors: str, image_size: int | None) -> Census:
    """Count the rows that :func:`encoded` gave.

    Raises
    ------
    EmptyInputError
        There are no rows, or no complete one.
    ColumnError, LabelError
        Values are null or not finite, and ``errors="raise"``; tensors of one column have several shapes, or no numbers;
        whole numbers would be rounded.
    """
    sources = chosen.sources
    ends = [(name, F.min if name.endswith("_min") else F.max) for name in rows.columns if name[0] in "nr"]
    found = (
        rows.groupBy("bucket", "defect")
        .agg(
            F.count("*").alias("rows"),
            # Hashes are 64 bits long, and so would their sum be.
            F.sum(F.col("key").cast("decimal(20,0)")).alias("content"),
            *(end(name).alias(name) for name, end in ends),
        )
        .collect()
    )
    if not found:
        raise EmptyInputError("the DataFrame has no rows")
    defects = {defect: sum(row["rows"] for row in found if row["defect"] == defect) for defect in _defects(found)}
    dropped = {_reason(sources, defect): rows for defect, rows in defects.items()}
    if dropped and errors == "raise":
        label = sources[min(defects) // 2].name in chosen.labels
        raise (LabelError if label else ColumnError)(
            f'{listed(dropped)}; errors="drop" leaves such rows out, pyspark.ml.feature.Imputer fills numbers in'
        )
    complete = [row for row in found if row["defect"] == _COMPLETE]
    if not complete:
        raise EmptyInputError(f"no row is complete: {listed(dropped)}")
    for place, source in enumerate(chosen.rounded):
        found_inexact = [row[f"r{place}"] for row in complete if row[f"r{place}"] is not None]
        if found_inexact:
            raise ColumnError(
                f"column {source.name!r} has whole numbers that float32 rounds, such as {max(found_inexact)}: ids go "
                f"into an input of whole numbers alone, feature_columns={{'ids': [{source.name!r}], ...}}, which keeps "
                "them; a quantity, which may be rounded, is cast to double first"
            )
    buckets = {row["bucket"]: row["rows"] for row in complete}
    shapes = {source.name: _shape(source, place, complete) for place, source in enumerate(sources)}
    if image_size is not None:
        shapes |= {source.name: (3, image_size, image_size) for source in sources if source.kind == "image"}
    content = str(sum(int(row["content"]) for row in complete))
    return Census(tuple(buckets.get(bucket, 0) for bucket in range(BUCKETS)), content, shapes, dropped)


def listed(dropped: Mapping[str, int]) -> str:
    """List reasons and counts in words."""
    return ", ".join(f"{reason}: {rows:,} row{'' if rows == 1 else 's'}" for reason, rows in dropped.items())


def _defect(sources: Sequence[Source], columns: Sequence[Column]) -> Column:
    """Number the first defect of a row, so that a row is counted once."""
    tests = []
    for place, (source, column) in enumerate(zip(sources, columns, strict=True)):
        tests.append((source.has_null(column), 2 * place))
        not_finite = source.not_finite(column)
        if not_finite is not None:
            tests.append((not_finite, 2 * place + 1))
    (first, number), *others = tests
    found = reduce(lambda so_far, test: so_far.when(*test), others, F.when(first, number))
    return found.otherwise(_COMPLETE)


def _defects(found: Iterable[Row]) -> list[int]:
    return sorted({row["defect"] for row in found} - {_COMPLETE})


def _reason(sources: Sequence[Source], defect: int) -> str:
    name = sources[defect // 2].name
    return f"NaN or infinite in {name!r}" if defect % 2 else f"null in {name!r}"


def _shape(source: Source, place: int, complete: Sequence[Row]) -> tuple[int, ...]:
    shape = []
    for axis in range(len(source.lengths)):
        lowest = min((row[f"n{place}_{axis}_min"] or 0) for row in complete)
        highest = max((row[f"n{place}_{axis}_max"] or 0) for row in complete)
        if lowest != highest:
            what = "vectors" if source.kind == "vector" else f"arrays at depth {axis + 1}"
            raise ColumnError(
                f"column {source.name!r}: {what} are {lowest} to {highest} long; a network reads tensors of one shape: "
                "pad or cut them"
            )
        if not highest:
            raise ColumnError(f"column {source.name!r}: its tensors hold no numbers")
        shape.append(highest)
    return tuple(shape)
