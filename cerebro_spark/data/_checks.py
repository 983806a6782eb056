"""Checks of a preparation: its arguments, before Spark starts a job, and the reports and errors of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from cerebro_spark.data._census import listed
from cerebro_spark.errors import ChangingInputError, ColumnError, EmptyInputError, InvalidArgumentError, StoreError
from optimizer.arguments import one_of, whole_or_none
from udfs.driver import cause
from udfs.names import check_name
from udfs.shards import FOLDER
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.data._columns import Chosen
    from udfs.shards import PreparedData

__all__ = [
    "check_image_size",
    "check_numbers",
    "check_rows_of_series",
    "check_words",
    "check_written",
    "collect_reports",
    "from_worker",
]

_POLICIES = ("raise", "drop")


def check_numbers(num_shards: Any, test_fraction: Any, seed: Any, image_size: Any) -> None:
    """Check the numbers that decide the placement of rows."""
    for argument, number, least in (
        ("num_shards", num_shards, 1),
        ("seed", seed, 0),
        ("image_size", image_size, 1),
    ):
        whole_or_none(argument, number, least)
    if seed >= 2**63:
        raise InvalidArgumentError(f"seed must be less than 2**63, got {seed}.")
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, (int, float)) or not 0 <= test_fraction < 1:
        raise InvalidArgumentError(
            f"test_fraction must be the share of validation rows, from 0 to less than 1, got {test_fraction!r}."
        )


def check_words(name: str | None, errors: str) -> None:
    """Check a name and the policy for bad rows."""
    if name is not None:
        check_name(name, "prepared data")
    one_of("errors", errors, _POLICIES)


def check_image_size(chosen: Chosen, image_size: int | None) -> None:
    """Check that images have a size."""
    if chosen.has_images and image_size is None:
        image = next(source.name for source in chosen.sources if source.kind == "image")
        raise InvalidArgumentError(
            f"column {image!r} holds images: image_size= says how many pixels high and wide the network reads them"
        )


def check_rows_of_series(chosen: Chosen) -> None:
    """Check that rows can be in series: windows of rows have no weight, and an image that is left out makes a gap."""
    if chosen.weight is not None:
        raise InvalidArgumentError(
            f"weight_column must be None for series, whose windows have no weight, got {chosen.weight.name!r}."
        )
    if chosen.has_images:
        image = next(source.name for source in chosen.sources if source.kind == "image")
        raise InvalidArgumentError(
            f"feature_columns must be numbers, vectors or arrays for series, got {image!r} with images. Make features "
            "of them first, with a pretrained network of vista_spark"
        )


def check_written(
    counted: Mapping[Any, int],
    received: Mapping[Any, int],
    empty_shards: Sequence[int],
    bad: Mapping[str, int],
    errors: str,
) -> None:
    """Check the reports of the workers against the count of the rows.

    Parameters
    ----------
    counted, received : mapping of shard to int
        Rows of each shard when they were counted, and when the workers wrote them.
    empty_shards : sequence of int
        Training shards that must have rows, but have none.
    bad : mapping of str to int
        Rows that the workers could not write, by reason.
    errors : {"drop", "raise"}
        Policy for bad rows.

    Raises
    ------
    ChangingInputError
        The DataFrame returned different rows when it was read again.
    ColumnError
        A row is bad, and `errors` is ``"raise"``.
    EmptyInputError
        A training shard has no rows.
    """
    if _without_zeros(received) != _without_zeros(counted):
        raise ChangingInputError(
            f"df must return the same rows each time, got {sum(counted.values()):,} when counting and "
            f"{sum(received.values()):,} when writing: cache or checkpoint it first, or read it from a table"
        )
    if bad and errors == "raise":
        raise ColumnError(f'{listed(bad)}; errors="drop" leaves such rows out')
    if empty_shards:
        remedy = "lower num_shards" if sum(received.values()) > sum(bad.values()) else "no row is left, correct them"
        raise EmptyInputError(f"training shard {empty_shards[0]} must have rows, got none ({listed(bad)}): {remedy}")


def _without_zeros(rows: Mapping[Any, int]) -> dict[Any, int]:
    return {shard: number for shard, number in rows.items() if number}


def collect_reports(job: DataFrame, planned: PreparedData) -> list[dict[str, Any]]:
    """Collect the reports of the workers that write shards.

    Raises
    ------
    StoreFullError
        The disk of the store is full; the shards are deleted.
    StoreError, ChangingInputError
        A worker raised it.
    """
    try:
        reports = [row.asDict() for row in job.collect()]
    except PySparkException as error:
        raise from_worker(error) from error
    full = next((report["full"] for report in reports if report["full"]), "")
    if full:
        # The shards that were written are of no use, and take the space that is missing.
        planned.store.delete(FOLDER, planned.name)
        raise StoreFullError(full)
    return reports


def from_worker(error: PySparkException) -> Exception:
    """Return a worker's error about the store or a shard; any other error as Spark raised it."""
    kind, message = cause(error)
    known = {"StoreError": StoreError, "StoreFullError": StoreFullError, "ShardError": ChangingInputError}
    return known[kind](message) if kind in known else error
