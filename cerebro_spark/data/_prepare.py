"""Preparation of a DataFrame: shuffle it once and write it as shards, to train from many times.

A shard is a Parquet file with a part of the rows of a split; the splits are training and validation. A row is complete
if no value is null, and no number NaN or infinite.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from cerebro_spark.data._census import COMPLETE, count, encoded, listed
from cerebro_spark.data._checks import (
    check_image_size,
    check_numbers,
    check_rows_of_series,
    check_words,
    check_written,
    collect_reports,
)
from cerebro_spark.data._columns import choose
from cerebro_spark.data._series_plan import SeriesPlan, check_series, plan_series, series_columns
from cerebro_spark.data._shard_checks import damaged_shards
from cerebro_spark.data._shuffle import ShardPlan
from cerebro_spark.errors import CerebroError, ColumnError, EmptyInputError, InvalidArgumentError, ShardError
from cerebro_spark.hopper import uses_slots
from udfs.driver import validate_arguments
from udfs.shards import FOLDER, SPLITS, PreparedData, Shard, ShardReport, ShardWriter, load_prepared, shard_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark.data._census import Census
    from cerebro_spark.data._columns import Chosen
    from udfs.shards import Series
    from udfs.store import Store

__all__ = ["prepare"]

_LOG = logging.getLogger(__name__)

# Seconds without a write after which a partial file belongs to a killed task.
_ABANDONED_S = 3600.0
# Version of the row order and the file format. Shards of another version are not reused: it is in the fingerprint.
_FORMAT = 1


@validate_arguments
def prepare(  # noqa: PLR0913 - each is a setting of its own of the public function
    df: DataFrame,
    store: Store,
    *,
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]],
    label_columns: Sequence[str],
    weight_column: str | None = None,
    num_shards: int,
    name: str | None = None,
    test_fraction: float = 0.25,
    seed: int = 0,
    image_size: int | None = None,
    series: Series | None = None,
    errors: str = "drop",
    progress: Callable[[str], None] | None = None,
) -> PreparedData:
    """Shuffle a DataFrame once and write it as shards of plain Parquet.

    The shard of a row depends on the content of all rows, the columns, ``num_shards``, ``test_fraction`` and ``seed``,
    and not on the DataFrame's partitioning or order. The sizes of a split's shards differ by one row at most. If the
    store already has shards of the same rows, columns and settings, they are returned and not written again.

    Parameters
    ----------
    df : DataFrame
        Rows to prepare. They are read twice and must not change in between.
    store : Store
        Store that every worker can reach.
    feature_columns : sequence of str, or mapping of str to sequence of str
        Inputs of the network. In a sequence, numbers, booleans and Spark ML vectors make one input, ``"features"``,
        joined as ``float32``; an array, flat or nested, and an image (encoded bytes, Spark's struct) are an input
        each, named as the column. A mapping names the inputs and the columns of each; there an input of integer columns
        alone stays ``int64``, for embeddings. Cast them to double for layers that take floats.
    label_columns : sequence of str
        Values to predict: numbers, vectors or arrays. Each column is a separate label. Integers and booleans are stored
        as ``int64`` and others as ``float32``; the same holds for arrays among the features.
    weight_column : str, optional
        Weights of the rows: finite numbers, not negative. Losses and metrics become weighted means, in training and in
        validation. Rows of weight 0 are ignored, even if other values are bad, and counted in the result. Other weights
        do not affect the shard of a row. Default ``None``: all rows have the same weight.
    num_shards : int
        Number of shards of each split: one per worker.
    name : str, optional
        Name of the folder ``prepared/<name>`` in the store; by default derived from the fingerprint.
    test_fraction : float
        Share of the complete rows for validation, in ``[0, 1)``. Default 0.25.
    seed : int
        Seed of the shuffle, not negative. Default 0.
    image_size : int, optional
        Height and width in pixels of the images, which are stored as 8-bit RGB of shape ``(3, size, size)``: the
        shorter side is resized to it, the aspect ratio kept, and the centre cut out.
    series : Series, optional
        Columns that make series of the rows, see :class:`Series`: shards keep whole series, in time order, and splits
        whole subjects. Default ``None``: rows are shuffled one by one.
    errors : {"drop", "raise"}
        Treatment of rows with a null, a number that is NaN or infinite as ``float32``, or an image that cannot be
        decoded: they are left out, counted in the result and logged as a warning (default), or an error counts them.
    progress : callable, optional
        Called with the name of each step as it begins.

    Returns
    -------
    PreparedData
        Description of the dataset, whose shards are in the store.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid, or ``name`` is taken by another dataset.
    ColumnError, LabelError
        A column is missing, has a wrong type, bad values, or tensors of several shapes; or ``float32`` cannot represent
        its integers exactly; or a weight is null, NaN, infinite or negative, regardless of ``errors``.
    EmptyInputError
        There are no rows, fewer training rows than shards, or all rows have weight 0; or ``test_fraction`` selects no
        row.
    StoreError
        The driver or a worker cannot write to the store.
    BusyError
        Another run is active in the session, and its workers occupy all task slots.
    ChangingInputError
        The DataFrame returned different rows when it was read again.

    Notes
    -----
    Spark shuffles the rows twice: once to number them in their new order, and once to move them to their shards.
    Images are shuffled in their encoded form.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from udfs.store import Store
    >>> df = SparkSession.getActiveSession().createDataFrame([(float(x), x % 2) for x in range(8)], "x double, odd int")
    >>> store = Store.from_uri(tempfile.mkdtemp())
    >>> prepared = prepare(df, store, feature_columns=["x"], label_columns=["odd"], num_shards=2, name="parity")
    >>> [(shard.split, shard.partition, shard.rows) for shard in prepared.shards]
    [('train', 0, 3), ('train', 1, 3), ('validation', 0, 1), ('validation', 1, 1)]
    >>> prepared.inputs[0].shape, prepared.labels[0].dtype
    ((1,), 'int64')

    A row of weight 0 is left out, and the others count by their weights:

    >>> df = df.withColumn("weight", df["x"])
    >>> weighted = prepare(
    ...     df, store, feature_columns=["x"], label_columns=["odd"], weight_column="weight", num_shards=2
    ... )
    >>> weighted.rows("train") + weighted.rows("validation"), weighted.zero_weights
    (7, 1)
    """
    check_numbers(num_shards, test_fraction, seed, image_size)
    check_words(name, errors)
    # Neither JSON nor Spark's expressions take numpy's numbers.
    num_shards, test_fraction, seed = int(num_shards), float(test_fraction), int(seed)
    image_size = None if image_size is None else int(image_size)
    chosen = choose(df, feature_columns, label_columns, weight_column)
    check_image_size(chosen, image_size)
    if series is not None:
        check_rows_of_series(chosen)
        check_series(df, series)
    with uses_slots(df.sparkSession):
        store.check_writable()
        tick = progress or _LOG.info
        tick("counting rows")
        rows = encoded(df, chosen, seed, *([] if series is None else series_columns(df, series, seed)))
        census = count(rows, chosen, errors, image_size)
        plan: ShardPlan | SeriesPlan
        if series is None:
            plan = _plan_shards(census, num_shards, test_fraction, seed)
        else:
            tick("counting series")
            plan = plan_series(rows, series, num_shards, test_fraction)
        fingerprint = _fingerprint(chosen, census, num_shards, test_fraction, seed, *_of_series(series, plan))
        inputs, labels = chosen.groups(census.shapes)
        name = name or fingerprint[:16]
        planned = PreparedData(
            store,
            name,
            inputs,
            labels,
            (),
            seed,
            test_fraction,
            fingerprint,
            census.dropped,
            chosen.weights,
            census.zero_weights,
            census.label_samples,
            series,
        )
        if census.zero_weights:
            _LOG.info("%d rows have the weight 0 in %r and are left out", census.zero_weights, weight_column)
        prepared = _load_existing(planned, errors, df.sparkSession)
        if prepared is None:
            prepared = _ShardWriteJob(planned, chosen, plan, errors).run(rows, tick)
        if prepared.dropped:
            _LOG.warning('rows are left out: %s. errors="raise" refuses such data', listed(prepared.dropped))
        return prepared


@dataclass(frozen=True, slots=True)
class _ShardWriteJob:
    """Spark job that writes the shards of a dataset, and checks that it received the rows that were counted."""

    planned: PreparedData
    chosen: Chosen
    plan: ShardPlan | SeriesPlan
    errors: str

    def run(self, rows: DataFrame, tick: Callable[[str], None]) -> PreparedData:
        """Write the shards on the workers, then the description, so that a partial dataset is never read."""
        planned = self.planned
        planned.store.sweep(FOLDER, planned.name, unchanged_s=_ABANDONED_S)
        tick(f"writing {self.plan.partitions} shards to {planned.store.uri}")
        reports = self._write(rows)
        bad = sum((Counter(report.bad) for report in reports), Counter[str]())
        self._discard_unless_complete(reports, bad)
        shards = tuple(
            Shard(
                report.split,
                report.partition,
                shard_path(report.split, report.partition),
                report.rows,
                report.rows * self._row_bytes,
                report.digest,
                report.lengths,
            )
            for report in sorted(reports, key=lambda report: (report.split, report.partition))
            if report.rows
        )
        self._delete_other_files(shards)
        prepared = replace(planned, shards=shards, dropped={**planned.dropped, **bad})
        prepared.save()
        return prepared

    @property
    def _row_bytes(self) -> int:
        return sum(group.nbytes for group in self.planned.groups)

    def _write(self, rows: DataFrame) -> list[ShardReport]:
        columns = {column.name: column for column in self.planned.columns}
        sources = self.chosen.sources
        images = tuple(source.name for source in sources if source.kind == "image")
        writer = ShardWriter(
            self.planned.store,
            self.planned.name,
            tuple(columns[source.name] for source in sources),
            images,
            self.plan.partitions,
            series=isinstance(self.plan, SeriesPlan),
        )
        encoded_columns = [f"c{place}" for place in range(len(sources))]
        reports = collect_reports(
            self._assigned(rows, encoded_columns).mapInArrow(writer, ShardReport.schema), self.planned
        )
        return [
            ShardReport(**{**report, "bad": json.loads(report["bad"]), "lengths": _lengths(report["lengths"])})
            for report in reports
        ]

    def _assigned(self, rows: DataFrame, encoded_columns: list[str]) -> DataFrame:
        if isinstance(self.plan, SeriesPlan):
            return self.plan.assign_rows(rows, encoded_columns)
        complete = rows.where(F.col("defect") == COMPLETE)
        # The shuffle key is a hash of the row without its weight. Rows that differ only in their weights have the same
        # key: order them by weight (the last column), so that they are in the same order in every run.
        tie_breakers = [] if self.chosen.weight is None else encoded_columns[-1:]
        return self.plan.assign_rows(complete, encoded_columns, tie_breakers)

    def _discard_unless_complete(self, reports: Sequence[ShardReport], bad: Counter[str]) -> None:
        """Delete the dataset and raise if rows changed after the count, are bad, or leave a training shard empty."""
        received = {(report.split, report.partition): report.rows + sum(report.bad.values()) for report in reports}
        counted = {
            (split, partition): self.plan.count_rows(split, partition)
            for split in SPLITS
            for partition in range(self.plan.partitions)
        }
        empty = [report.partition for report in reports if report.split == SPLITS[0] and not report.rows]
        try:
            check_written(counted, received, empty, bad, self.errors)
        except CerebroError:
            self.planned.store.delete(FOLDER, self.planned.name)
            raise

    def _delete_other_files(self, shards: Sequence[Shard]) -> None:
        """Delete files of an earlier attempt with other rows, before the folder is read."""
        written = {shard.path for shard in shards}
        store, name = self.planned.store, self.planned.name
        for split in SPLITS:
            for other in store.list(FOLDER, name, split):
                if f"{split}/{other}" not in written:
                    store.delete(FOLDER, name, split, other)


def _plan_shards(census: Census, num_shards: int, test_fraction: float, seed: int) -> ShardPlan:
    """Compute the sizes of the shards, after a check that they have enough rows."""
    validation_rows = round(census.rows * test_fraction)
    training_rows = census.rows - validation_rows
    left_out = f". Rows are left out: {listed(census.dropped)}" if census.dropped else ""
    if training_rows < num_shards:
        raise EmptyInputError(
            f"num_shards must be at most the number of training rows, {training_rows} of {census.rows} complete rows "
            f"(test_fraction={test_fraction}), got {num_shards}: lower num_shards{left_out}"
        )
    if test_fraction and not validation_rows:
        raise EmptyInputError(
            f"test_fraction must select at least one of {census.rows} complete rows, got {test_fraction}: raise it, or "
            f"set it to 0{left_out}"
        )
    return ShardPlan(census.buckets, num_shards, validation_rows, seed)


def _lengths(text: str) -> tuple[int, ...] | None:
    lengths = json.loads(text)
    return None if lengths is None else tuple(lengths)


def _of_series(series: Series | None, plan: ShardPlan | SeriesPlan) -> list[dict[str, Any]]:
    return [{**series.to_dict(), "content": plan.content}] if series and isinstance(plan, SeriesPlan) else []


def _fingerprint(
    chosen: Chosen, census: Census, num_shards: int, test_fraction: float, seed: int, *series: dict[str, Any]
) -> str:
    """Hash everything that decides the content of the shards."""
    inputs, labels = chosen.groups(census.shapes)
    facts = {
        "format": _FORMAT,
        "inputs": [asdict(group) for group in inputs],
        "labels": [asdict(group) for group in labels],
        "kinds": [source.kind for source in chosen.sources],
        "partitions": num_shards,
        "validation": test_fraction,
        "seed": seed,
        "rows": census.rows,
        "content": census.content,
        "dropped": dict(census.dropped),
    }
    if series:
        facts["series"] = series[0]
    if chosen.weights is not None:
        facts["weights"] = asdict(chosen.weights)
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _load_existing(planned: PreparedData, errors: str, spark: SparkSession) -> PreparedData | None:
    """Load the dataset of an earlier call; ``None`` if there is none, or a file of it is missing or damaged."""
    try:
        stored = load_prepared(planned.store, planned.name)
    except ShardError:
        return None
    if stored.fingerprint != planned.fingerprint:
        raise InvalidArgumentError(
            f"name must be new in {planned.store.uri} or name the same dataset, got {planned.name!r}, which was "
            "prepared from other rows, columns or settings: use another name, or delete the dataset with "
            f"store.delete({FOLDER!r}, {planned.name!r})"
        )
    if stored.missing:
        _LOG.warning("%s: shards are missing; they are written again", planned.name)
        return None
    damaged = damaged_shards(spark, stored)
    if damaged:
        _LOG.warning("%s; the shards are written again", "; ".join(damaged))
        return None
    if errors == "raise" and stored.dropped:
        raise ColumnError(f'{listed(stored.dropped)}; errors="drop" leaves such rows out')
    return replace(stored, zero_weights=planned.zero_weights, label_samples=planned.label_samples)
