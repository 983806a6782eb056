"""Add a batch of rows to prepared data, in which no record ever moves."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StringType

from cerebro_spark.data._census import COMPLETE, WITHOUT_WEIGHT, count, encoded, listed
from cerebro_spark.data._checks import (
    check_image_size,
    check_numbers,
    check_words,
    check_written,
    collect_reports,
)
from cerebro_spark.data._columns import choose
from cerebro_spark.data._shard_assignment import with_places
from cerebro_spark.errors import CerebroError, ColumnError, EmptyInputError, InvalidArgumentError
from cerebro_spark.hopper import uses_slots
from optimizer.errors import nearest
from udfs.driver import quoted, validate_arguments
from udfs.shards import (
    DESCRIPTION,
    FOLDER,
    SPLITS,
    GrowingData,
    Increment,
    IncrementReport,
    IncrementWriter,
    PreparedData,
    increment_name,
    increment_of,
    load_prepared,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.data._census import Census
    from cerebro_spark.data._columns import Chosen
    from udfs.store import Store

__all__ = ["prepare_increment"]

_LOG = logging.getLogger(__name__)

# Seconds without a write after which a partial file belongs to a killed task.
_ABANDONED_S = 3600.0
_LISTED = 5


@validate_arguments
def prepare_increment(  # noqa: PLR0913 - each is a setting of its own of the public function
    df: DataFrame,
    store: Store,
    *,
    name: str,
    id_column: str,
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]],
    label_columns: Sequence[str],
    weight_column: str | None = None,
    num_shards: int,
    test_fraction: float = 0.25,
    seed: int = 0,
    image_size: int | None = None,
    errors: str = "drop",
    previous: GrowingData | None = None,
    progress: Callable[[str], None] | None = None,
) -> GrowingData:
    """Add a batch of rows to growing prepared data, or create such data from the first batch.

    The split and the shard of a record depend only on its id and the seed, so they never change. The sizes of shards
    and splits are therefore approximate.

    A row whose id is already known has one of these effects:

    - with equal features, labels and weight, it has no effect;
    - with equal features and another label or weight, it corrects the label or weight; the old row keeps its place, and
      results computed from its features stay valid;
    - with other features, it replaces the old row, which is removed;
    - with the weight 0, the old row is removed.

    Rows are compared in the encoding of the shards, and images by their encoded bytes. A row that ``errors="drop"``
    leaves out has no effect on the earlier rows of its id.

    Parameters
    ----------
    df : DataFrame
        Rows of the batch, each id once. They are read twice and must not change in between.
    store : Store
        Store that every worker can reach.
    name : str
        Name of the folder ``prepared/<name>`` in the store. A new name keeps the state before this batch under the name
        of `previous`, whose files must stay in the store; the same name updates the data.
    id_column : str
        Column of record ids: strings or integers without nulls.
    feature_columns, label_columns, weight_column
        See :func:`prepare`; the same in every batch, as are the tensors' types and shapes.
    num_shards : int
        Number of shards of each split: one per worker. Every training shard needs a row of the first batch, but not of
        later ones.
    test_fraction : float
        Share of the ids for validation, in ``[0, 1)``. Default 0.25; the first batch needs one such row.
    seed : int
        Seed of the assignment to splits and shards, non-negative. Default 0.
    image_size : int, optional
        See :func:`prepare`.
    errors : {"drop", "raise"}
        See :func:`prepare`.
    previous : GrowingData, optional
        Data with all batches so far. Default ``None``: this is the first batch.
    progress : callable, optional
        Called with the name of each step as it begins.

    Returns
    -------
    GrowingData
        Data with one more increment, or `previous` itself if the batch has no changes. A batch that was already added
        under `name` is not added again.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid or differs from that of the first batch; `name` contains other data; or `previous` is
        no longer in the store.
    ColumnError, LabelError
        See :func:`prepare`; also if an id is null or occurs twice, or the columns differ from those of the first batch.
    EmptyInputError
        The batch has no complete row; or it is the first one, and a training shard or the validation split gets no row.
    StoreError, BusyError, ChangingInputError
        See :func:`prepare`.
    ShardError
        A file of an earlier batch is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from functools import partial
    >>> from pyspark.sql import SparkSession
    >>> from udfs.store import Store
    >>> spark = SparkSession.getActiveSession()
    >>> add = partial(
    ...     prepare_increment,
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     name="parity",
    ...     id_column="id",
    ...     feature_columns=["x"],
    ...     label_columns=["odd"],
    ...     num_shards=2,
    ... )
    >>> first = add(spark.createDataFrame([(n, float(n), n % 2) for n in range(20)], "id int, x double, odd int"))
    >>> first.rows("train") + first.rows("validation"), len(first.increments)
    (20, 1)

    A new record, a corrected label, and a record that is as it was:

    >>> batch = spark.createDataFrame([(20, 20.0, 0), (3, 3.0, 0), (4, 4.0, 0)], "id int, x double, odd int")
    >>> second = add(batch, previous=first)
    >>> second.rows("train") + second.rows("validation"), second.increments[1].rows
    (21, 1)
    """
    check_numbers(num_shards, test_fraction, seed, image_size)
    check_words(name, errors)
    # Neither JSON nor Spark's expressions take numpy's numbers.
    num_shards, test_fraction, seed = int(num_shards), float(test_fraction), int(seed)
    image_size = None if image_size is None else int(image_size)
    chosen = choose(df, feature_columns, label_columns, weight_column)
    check_image_size(chosen, image_size)
    _check_id(df, id_column)
    settings = {"num_shards": num_shards, "test_fraction": test_fraction, "seed": seed, "id_column": id_column}
    before = _before(store, name, previous, settings)
    with uses_slots(df.sparkSession):
        store.check_writable()
        tick = progress or _LOG.info
        tick("counting rows")
        rows = _placed(df, chosen, id_column, num_shards, test_fraction, seed)
        census = count(rows, chosen, errors, image_size, buckets=2 * num_shards)
        inputs, labels = chosen.groups(census.shapes)
        planned = PreparedData(
            store,
            increment_name(name, 0 if before is None else len(before.increments)),
            inputs,
            labels,
            (),
            seed,
            test_fraction,
            "planned",
            census.dropped,
            chosen.weights,
            census.zero_weights,
        )
        if before is None:
            _check_first(census, num_shards, test_fraction)
        else:
            _check_alike(planned, before)
        increment = _ShardWriteJob(planned, chosen, census, errors, before, num_shards).run(rows, tick)
    if increment.data.dropped:
        _LOG.warning('rows are left out: %s. errors="raise" refuses such data', listed(increment.data.dropped))
    if before is not None and not increment.rows and not increment.changes:
        _LOG.info("%s: the batch has nothing new", name)
        store.delete(FOLDER, planned.name)
        return before
    if before is not None and (previous is None or before.fingerprint != previous.fingerprint):
        store.delete(FOLDER, planned.name)
        raise InvalidArgumentError(
            f"{name!r} holds another batch already in {store.uri}: give another name, or previous="
            f"udfs.shards.GrowingData.load(store, {name!r}) to add to it"
        )
    increments = (increment,) if before is None else (*before.increments, increment)
    grown = GrowingData.of(name, increments, num_shards=num_shards, id_column=id_column)
    grown.save()
    return grown


@dataclass(frozen=True, slots=True)
class _ShardWriteJob:
    """Spark job that writes new and changed rows, and checks that it received the rows that were counted."""

    planned: PreparedData
    chosen: Chosen
    census: Census
    errors: str
    previous: GrowingData | None
    num_shards: int

    def run(self, rows: DataFrame, tick: Callable[[str], None]) -> Increment:
        """Write new and changed rows on the workers."""
        planned = self.planned
        # Delete files of an earlier attempt that has not written the description.
        planned.store.delete(FOLDER, planned.name)
        planned.store.sweep(FOLDER, planned.name.partition("/")[0], unchanged_s=_ABANDONED_S)
        tick(f"writing the batch to {planned.store.uri}")
        reports = self._write(rows)
        bad = sum((Counter(report.bad) for report in reports), Counter[str]())
        self._discard_unless_complete(reports, bad)
        return increment_of(planned, reports)

    def _write(self, rows: DataFrame) -> list[IncrementReport]:
        columns = {column.name: column for column in self.planned.columns}
        sources = self.chosen.sources
        labels = [source.name for group in self.chosen.labels.values() for source in group]
        weights = [] if self.chosen.weight is None else [self.chosen.weight.name]
        writer = IncrementWriter(
            self.planned.store,
            self.planned.name,
            tuple(columns[source.name] for source in sources),
            tuple(source.name for source in sources if source.kind == "image"),
            tuple(dict.fromkeys([*labels, *weights])),
            self.num_shards,
            self.previous,
        )
        facts = ["id", "features", "labels", "without"]
        encoded_columns = [f"c{place}" for place in range(len(sources))]
        wanted = rows.where(F.col("defect").isin(COMPLETE, WITHOUT_WEIGHT))
        assigned = (
            wanted.withColumn("without", F.col("defect") == WITHOUT_WEIGHT)
            .repartition(2 * self.num_shards, "bucket")
            .sortWithinPartitions("bucket", "turn", "id")
            .select("bucket", *facts, *encoded_columns)
        )
        reports = collect_reports(assigned.mapInArrow(writer, IncrementReport.schema), self.planned)
        return [IncrementReport.from_row(report) for report in reports]

    def _discard_unless_complete(self, reports: Sequence[IncrementReport], bad: Counter[str]) -> None:
        """Delete the increment and raise if an id comes twice, or for the reasons of :func:`check_written`."""
        received = {
            SPLITS.index(report.split) * self.num_shards + report.partition: report.received for report in reports
        }
        empty: list[int] = []
        if self.previous is None:
            written = {(report.split, report.partition) for report in reports if report.rows}
            empty = [place for place in range(self.num_shards) if (SPLITS[0], place) not in written]
        try:
            _check_ids(reports)
            check_written(dict(enumerate(self.census.buckets)), received, empty, bad, self.errors)
        except CerebroError:
            self.planned.store.delete(FOLDER, self.planned.name)
            raise


def _check_ids(reports: Sequence[IncrementReport]) -> None:
    """Check that no id comes twice in a batch."""
    twice = [record for report in reports for record in report.twice]
    if twice:
        more = ", ".join(map(repr, twice[:_LISTED]))
        raise ColumnError(
            f"ids come twice in one batch: {more}. A record is one row of a batch: keep the row that holds, with "
            "df.dropDuplicates([id_column]) if they are all equal"
        )


def _placed(
    df: DataFrame, chosen: Chosen, id_column: str, num_shards: int, test_fraction: float, seed: int
) -> DataFrame:
    """Encode the rows, each with its id, its shard (``bucket``), and hashes of features and of labels and weight."""
    record = F.col(quoted(id_column)).cast("string")
    rows = encoded(df, chosen, seed, record.alias("id"))
    features = len(dict.fromkeys(source for group in chosen.inputs.values() for source in group))
    columns = [F.col(f"c{place}") for place in range(len(chosen.sources))]
    placed = with_places(rows, columns[:features], num_shards, test_fraction, seed)
    # A null has no place, and the count says so.
    return placed.withColumns({"labels": F.xxhash64(*columns[features:]), "bucket": F.coalesce("bucket", F.lit(-1))})


def _check_id(df: DataFrame, id_column: str) -> None:
    if df.columns.count(id_column) != 1:
        raise ColumnError(
            f"{df.columns.count(id_column) or 'no'} columns are named {id_column!r}, of which id_column= takes "
            f"one{nearest(id_column, df.columns)}; columns: {', '.join(df.columns)}"
        )
    kind = df.schema[id_column].dataType
    if not isinstance(kind, (IntegralType, StringType)):
        raise ColumnError(
            f"the id {id_column!r} is {kind.simpleString()}: an id is a string or a whole number; cast it to string"
        )


def _before(store: Store, name: str, previous: GrowingData | None, settings: Mapping[str, Any]) -> GrowingData | None:
    """Find the data that a batch is added to: `previous`, or what `name` has after the same batch was added to it."""
    if previous is not None and not isinstance(previous, GrowingData):
        raise InvalidArgumentError(
            f"previous is a {type(previous).__name__}, not GrowingData: begin with previous=None"
        )
    if previous is not None and previous.store != store:
        raise InvalidArgumentError(f"previous is in {previous.store.uri}, and the batch is for {store.uri}")
    stored = _load_existing(store, name)
    earlier = () if previous is None else previous.increments
    if stored is None:
        if previous is not None and _load_existing(store, previous.name) is None:
            raise InvalidArgumentError(f"previous is {previous.name!r}, which {store.uri} does not hold any more")
        before = previous
    elif isinstance(stored, GrowingData) and (stored.increments in (earlier, (*earlier, *stored.increments[-1:]))):
        before = stored
    else:
        grows = isinstance(stored, GrowingData)
        remedy = f"previous=udfs.shards.GrowingData.load(store, {name!r}) adds to it" if grows else "give another name"
        raise InvalidArgumentError(f"{name!r} holds other data in {store.uri} already: {remedy}")
    if before is not None:
        _check_settings(before, settings)
    return before


def _load_existing(store: Store, name: str) -> PreparedData | None:
    """Load the data of an earlier call; ``None`` if there is none."""
    return load_prepared(store, name) if store.exists(FOLDER, name, DESCRIPTION) else None


def _check_settings(before: GrowingData, settings: Mapping[str, Any]) -> None:
    for setting, value in settings.items():
        first = getattr(before, setting)
        if value != first:
            raise InvalidArgumentError(
                f"{setting}={value!r}, and {before.name!r} began with {first!r}: records would change places; give "
                f"{setting}={first!r}"
            )


def _check_first(census: Census, num_shards: int, test_fraction: float) -> None:
    training, validation = census.buckets[:num_shards], census.buckets[num_shards:]
    if not all(training):
        raise EmptyInputError(
            f"training shard {training.index(0)} gets none of the {census.rows} complete rows of the first batch (rows "
            f"are drawn by their ids, test_fraction={test_fraction}), and {num_shards} shards need at least one each: "
            "lower num_shards, or begin with more rows"
        )
    if test_fraction and not any(validation):
        raise EmptyInputError(
            f"test_fraction={test_fraction} holds out none of the {census.rows} complete rows of the first batch (rows "
            "are drawn by their ids): raise it, set it to 0, or begin with more rows"
        )


def _check_alike(planned: PreparedData, previous: GrowingData) -> None:
    """Check that a batch's columns are those of the first one."""
    before = {column.name: column for column in previous.columns}
    now = {column.name: column for column in planned.columns}
    for name, column in now.items():
        if name in before and before[name] != column:
            old = before[name]
            raise ColumnError(
                f"column {name!r} has tensors of {column.dtype}{list(column.shape)}, and of "
                f"{old.dtype}{list(old.shape)} in the first batch: bring the batch into that form, or "
                "begin anew under another name"
            )
    if planned.groups != previous.groups or planned.inputs != previous.inputs:
        raise ColumnError(
            f"the batch has the inputs and labels {_groups(planned)}, and the first one had {_groups(previous)}: give "
            "the same columns, or begin anew under another name"
        )


def _groups(data: PreparedData) -> str:
    return ", ".join(f"{group.name} ({', '.join(column.name for column in group.columns)})" for group in data.groups)
