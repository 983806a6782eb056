"""Description of the windows that a saved model reads, and the windows of a DataFrame by it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cerebro_spark.sequences._window_rows import window_rows
from udfs.sequences import Windows
from udfs.shards import Series, TensorGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from udfs.shards import PreparedData

__all__ = ["described_rows", "window_facts"]


def window_facts(view: Windows, prepared: PreparedData) -> dict[str, Any]:
    """Describe windows of the rows that were prepared, as plain data for :func:`described_rows`."""
    assert prepared.series is not None  # windows are of series
    return {
        "view": view.to_dict(),
        "series": prepared.series.to_dict(),
        "inputs": [asdict(group) for group in prepared.inputs],
        "labels": [group.name for group in prepared.labels if not group.shape],
    }


def described_rows(dataset: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """Make a row of each window; errors are those of :func:`window_rows`.

    Labels of the rows are labels of the windows too, so that evaluators compare them with predictions, unless a
    function of the search made them.
    """
    known = facts["labels"] if "label" in facts["view"] else []
    labels = tuple(name for name in known if name in dataset.columns)
    inputs = tuple(map(TensorGroup.from_dict, facts["inputs"]))
    return window_rows(dataset, Series.from_dict(facts["series"]), Windows.from_dict(facts["view"]), inputs, labels)
