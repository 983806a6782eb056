"""Preparation of rows for a search per group: count the groups, sort by group, write shards with an index."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from cerebro_spark.data import (
    Census,
    Chosen,
    check_image_size,
    check_numbers,
    choose,
    collect_reports,
    count,
    defect_reasons,
    encoded,
    listed,
)
from cerebro_spark.errors import InvalidArgumentError, ShardError
from cerebro_spark.grouping._keys import ALL_ROWS, check_names, key_types, keys
from cerebro_spark.hopper import uses_slots
from optimizer.arguments import one_of, whole
from optimizer.grouping import GROUP_COST, Chunk
from udfs.driver import validate_arguments
from udfs.grouping import GroupedData, GroupReport, GroupWriter, load_grouped
from udfs.shards import FOLDER, SPLITS, PreparedData, Shard, shard_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from udfs.store import Store

__all__ = ["prepare_groups"]

_LOG = logging.getLogger(__name__)

_ABANDONED_S = 3600.0
# Version of the row order and the index. Data of another version are not reused: it is in the fingerprint.
_FORMAT = 2
# Chunks of groups for each shard, for a balanced distribution of the work.
_CHUNKS_PER_SHARD = 8
# Smaller chunks are not worth the start of a task.
_LEAST_COST = 5_000
# Rows of a group that can be trained and scored.
_SMALLEST = 2
# Rows of the group of all rows are chosen by a hash, a few more than are kept.
_SAMPLED, _SPARE = 1 << 20, 1.1


@validate_arguments
def prepare_groups(  # noqa: PLR0913 - each is a setting of its own of the public function
    df: DataFrame,
    store: Store,
    *,
    group_by: Sequence[str],
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]],
    label_columns: Sequence[str],
    weight_column: str | None = None,
    num_shards: int,
    test_fraction: float = 0.25,
    fallback_rows: int = 10_000,
    seed: int = 0,
    image_size: int | None = None,
    errors: str = "drop",
) -> GroupedData:
    """Sort a DataFrame by group and write it once as shards of plain Parquet, with an index of the groups.

    The order of a group's rows, and the rows held out, depend on the content of the rows and ``seed`` alone; the sample
    of all rows for the global model depends on the partitions of the DataFrame too. If the store already has shards of
    the same rows, columns and settings, they are returned and not written again.

    Parameters
    ----------
    df : DataFrame
        Rows to prepare. They are read several times and must not change in between.
    store : Store
        Store that every worker can reach.
    group_by : sequence of str
        Columns of the keys, from the outermost level to the innermost: strings, whole numbers, booleans or dates. Rows
        where one is null belong to the groups of the columns before it.
    feature_columns, label_columns, weight_column, image_size, errors
        As for :func:`cerebro_spark.prepare`.
    num_shards : int
        Number of shards, at least the number of tasks that train at the same time.
    test_fraction : float
        Share of the rows of each group held out for validation, in ``[0, 1)``. Default 0.25. Each group keeps a row to
        train on.
    fallback_rows : int
        Largest number of rows of the groups above the last level, which are chosen by a hash. Default 10,000.
    seed : int
        Seed of the row order, not negative. Default 0.

    Returns
    -------
    GroupedData
        Description of the shards.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid.
    ColumnError, LabelError
        A column is missing or has a wrong type or bad values; see :func:`cerebro_spark.prepare`.
    EmptyInputError
        There are no complete rows.
    StoreError, BusyError
        The store cannot be written, or another run has the task slots.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import Store
    >>> df = SparkSession.active().range(12).selectExpr("id % 3 as state", "double(id) as x", "id % 2 as y")
    >>> store = Store.from_uri(tempfile.mkdtemp())
    >>> data = prepare_groups(
    ...     df, store, group_by=["state"], feature_columns=["x"], label_columns=["y"], num_shards=2
    ... )
    >>> data.levels, dict(data.sizes)
    ((1, 3), {'least': 4, 'median': 4, 'most': 4})
    """
    check_numbers(num_shards, test_fraction, seed, image_size)
    one_of("errors", errors, ("raise", "drop"))
    fallback_rows = whole("fallback_rows", fallback_rows)
    names = check_names(group_by)
    types = key_types(df, names)
    chosen = choose(df, feature_columns, label_columns, weight_column)
    check_image_size(chosen, image_size)
    with uses_slots(df.sparkSession):
        store.check_writable()
        levels = [column.alias(f"k{level}") for level, column in enumerate(keys(names), 1)]
        rows = encoded(df, chosen, int(seed), *levels)
        census = count(rows, chosen, errors, image_size)
        stats = _statistics(rows, len(names))
        _check_groups(names, stats, census.rows)
        job = _Job(store, names, types, chosen, census, stats, int(num_shards), float(test_fraction), fallback_rows)
        existing = job.existing(int(seed))
        if existing is not None:
            return existing
        data = job.run(rows, int(seed))
    if data.prepared.dropped:
        _LOG.warning('rows are left out: %s. errors="raise" refuses such data', listed(data.prepared.dropped))
    return data


@dataclass(frozen=True, slots=True)
class _Statistics:
    """Groups of the last level: their number, their complete rows, and a hash of all keys with their rows."""

    levels: tuple[int, ...]
    sizes: Mapping[str, int]
    content: str


def _statistics(rows: DataFrame, levels: int) -> _Statistics:
    last = f"k{levels}"
    # A distinct count above the last level: of keys, not of rows.
    names = [f"k{level}" for level in range(1, levels + 1)]
    groups = (
        rows.where((F.col("defect") >= -1) & F.col("k1").isNotNull())
        .groupBy(*names)
        .agg(
            F.sum((F.col("defect") == -1).cast("bigint")).alias("rows"),
            F.sum(F.xxhash64("content", *names).cast("decimal(20,0)")).alias("content"),
        )
    )
    sizes = F.when(F.col(last).isNotNull(), F.col("rows"))
    row = groups.agg(
        *(F.countDistinct(name).alias(name) for name in names),
        F.min(sizes).alias("least"),
        F.percentile_approx(sizes, 0.5).alias("median"),
        F.max(sizes).alias("most"),
        F.sum("content").alias("content"),
    ).first()
    assert row is not None  # an aggregate without groups has one row
    sizes_by_name = {name: int(row[name] or 0) for name in ("least", "median", "most")}
    return _Statistics((1, *(row[name] for name in names)), sizes_by_name, str(row["content"]))


def _check_groups(names: Sequence[str], stats: _Statistics, rows: int) -> None:
    """Refuse keys that say nothing, and warn about a single group."""
    groups, most = stats.levels[-1], stats.sizes["most"]
    if most < _SMALLEST:
        raise InvalidArgumentError(
            f"group_by must name columns that rows have in common, got {', '.join(names)}, which makes {groups:,} "
            f"groups of {rows:,} rows, none with {_SMALLEST} complete rows. Group by fewer columns, or bin their values"
        )
    if groups == 1:
        _LOG.warning("group_by=%s makes one group; GridSearch trains its configurations on all workers", list(names))


@dataclass(frozen=True, slots=True)
class _Job:
    """Spark job that writes the shards."""

    store: Store
    group_by: tuple[str, ...]
    types: tuple[str, ...]
    chosen: Chosen
    census: Census
    stats: _Statistics
    num_shards: int
    test_fraction: float
    fallback_rows: int

    def existing(self, seed: int) -> GroupedData | None:
        """Load the data of an earlier call; ``None`` if there are none, or a file is gone."""
        fingerprint = self._fingerprint(seed)
        try:
            data = load_grouped(self.store, _name(fingerprint))
        except ShardError:
            return None
        return data if data.prepared.fingerprint == fingerprint and not data.prepared.missing else None

    def run(self, rows: DataFrame, seed: int) -> GroupedData:
        """Write the shards and their indices on the workers, then the description."""
        fingerprint, census = self._fingerprint(seed), self.census
        inputs, labels = self.chosen.groups(census.shapes)
        planned = PreparedData(
            self.store,
            _name(fingerprint),
            inputs,
            labels,
            (),
            seed,
            self.test_fraction,
            fingerprint,
            census.dropped,
            self.chosen.weights,
            census.zero_weights,
            census.label_samples,
        )
        self.store.sweep(FOLDER, planned.name, unchanged_s=_ABANDONED_S)
        reports = self._write(rows, planned)
        bad: Counter[str] = Counter()
        for report in reports:
            bad.update({why: number for why, number in report["left_out"].items() if why not in census.dropped})
        row_bytes = sum(group.nbytes for group in planned.groups)
        shards = tuple(
            Shard(
                SPLITS[0],
                report["partition"],
                shard_path(SPLITS[0], report["partition"]),
                report["rows"],
                report["rows"] * row_bytes,
                report["digest"],
            )
            for report in reports
            if report["rows"]
        )
        prepared = replace(planned, shards=shards, dropped={**planned.dropped, **bad})
        chunks = tuple(Chunk(**chunk) for report in reports for chunk in report["chunks"])
        data = GroupedData(prepared, self.group_by, self.types, chunks, self.stats.levels, self.stats.sizes)
        data.save()
        return data

    def _write(self, rows: DataFrame, planned: PreparedData) -> list[dict[str, Any]]:
        columns = {column.name: column for column in planned.columns}
        sources, last = self.chosen.sources, len(self.group_by)
        groups = sum(self.stats.levels)
        cost = self.census.rows * 2 + GROUP_COST * groups
        writer = GroupWriter(
            self.store,
            planned.name,
            tuple(columns[source.name] for source in sources),
            tuple(source.name for source in sources if source.kind == "image"),
            defect_reasons(self.chosen),
            self.test_fraction,
            self.fallback_rows,
            last,
            max(_LEAST_COST, cost / (_CHUNKS_PER_SHARD * self.num_shards)),
        )
        encoded_columns = [f"c{place}" for place in range(len(sources))]
        sorted_rows = self._sorted(rows, encoded_columns)
        reports = collect_reports(sorted_rows.mapInArrow(writer, GroupReport.schema), planned)
        return [
            report | {name: json.loads(report[name]) for name in ("left_out", "chunks")}
            for report in sorted(reports, key=lambda report: report["partition"])
        ]

    def _sorted(self, rows: DataFrame, columns: list[str]) -> DataFrame:
        """Repeat each row for the groups of all levels, and sort by shard and group."""
        share = min(1.0, _SPARE * self.fallback_rows / self.census.rows)
        turn = F.xxhash64(F.lit("turn"), F.col("content"))
        # Equal rows are sampled one by one: by their content alone, a table of few different rows may have no sample.
        draw = F.pmod(F.xxhash64(turn, F.monotonically_increasing_id()), F.lit(_SAMPLED))
        rows = rows.withColumn("sampled", draw < F.lit(int(share * _SAMPLED) + 1))
        everything = F.when((F.col("defect") == -1) & F.col("sampled"), F.lit(ALL_ROWS))
        levels = [everything, *(F.col(f"k{level}") for level in range(1, len(self.group_by) + 1))]
        exploded = rows.where(F.col("defect") >= -1).select(
            F.posexplode(F.array(*levels)).alias("level", "group"), turn.alias("turn"), "defect", *columns
        )
        # The group of all rows is first in shard 0, so that samples of the shards have rows of all groups.
        shard = F.when(F.col("level") == 0, F.lit(0)).otherwise(
            F.pmod(F.xxhash64("group"), F.lit(self.num_shards)).cast("int")
        )
        tie_breakers = [F.lit(0)] if self.chosen.weight is None else columns[-1:]
        # The shuffle by shard is enough for the window. Without a number, equal rows would be adjacent, and the rows
        # held out of a table of few different rows would be equal.
        number = F.row_number().over(Window.partitionBy("shard", "level", "group", "turn").orderBy(*tie_breakers))
        return (
            exploded.where(F.col("group").isNotNull())
            .select(shard.alias("shard"), "group", "level", "defect", "turn", *columns)
            .repartition(2 * self.num_shards, "shard")
            .withColumn("turn", F.xxhash64("turn", number))
            .sortWithinPartitions("shard", "level", "group", "turn")
            .select("shard", "group", "level", "defect", *columns)
        )

    def _fingerprint(self, seed: int) -> str:
        """Hash everything that decides the content of the shards."""
        inputs, labels = self.chosen.groups(self.census.shapes)
        facts = {
            "format": _FORMAT,
            "group_by": [self.group_by, self.types],
            "inputs": [asdict(group) for group in inputs],
            "labels": [asdict(group) for group in labels],
            "weights": None if self.chosen.weights is None else asdict(self.chosen.weights),
            "kinds": [source.kind for source in self.chosen.sources],
            "settings": [self.num_shards, self.test_fraction, self.fallback_rows, seed],
            "content": [self.census.content, self.stats.content, self.stats.levels],
            "dropped": dict(self.census.dropped),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _name(fingerprint: str) -> str:
    return f"groups-{fingerprint[:16]}"
