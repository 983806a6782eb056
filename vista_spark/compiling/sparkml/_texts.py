"""String indexers, and counts of words, of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.utils import is_remote

import optimizer.compiling as ops
from vista_spark.compiling._refusals import EXAMPLE, refuse
from vista_spark.compiling.sparkml._assembling import POLICIES
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.compiling.sparkml._columns import Columns

# A word whose bytes are no whole number of blocks, and what Spark 3 makes of it.
_ODD, _ODD_HASH = "\u00e9t\u00e9", 439_823_461
# What Spark SQL makes of truths, where a column of them is read as texts.
_TRUTHS = {"true", "false"}


@stage("StringIndexerModel")
def lower_index(model: Any, columns: Columns) -> None:
    """Lower the place of each text among the labels; another one, and a null, are bad or have a place of their own."""
    handle = model.getHandleInvalid()
    several = model.isSet("inputCols")
    pairs = (
        zip(model.getInputCols(), model.getOutputCols(), strict=True)
        if several
        else [(model.getInputCol(), model.getOutputCol())]
    )
    for (column, made), labels in zip(pairs, model.labelsArray, strict=True):
        if not columns.is_text(column) and (column in columns.kinds or _may_be_numbers(labels)):
            raise refuse(
                model,
                f"inputCol={column!r}",
                "its labels may come from numbers",
                EXAMPLE,
            )
        codes = columns.add(ops.Encode(np.array([columns.text(column)], np.int64), (tuple(labels),)))
        if handle != "keep":
            columns.set_policy(POLICIES[handle])
            codes = columns.add(ops.Known(np.full(1, len(labels), np.int64), type(model).__name__), codes)
        columns.add_column(made, codes, flat=True, role="transform")
        columns.whole.add(columns.added[made].node)


@stage("IndexToString")
def lower_labels(model: Any, columns: Columns) -> None:
    """Lower the label at each place; a number that is no place is bad, as it is an error there."""
    labels = model.getLabels() if model.isSet("labels") else []
    if not labels:
        raise refuse(model, "labels=[]", "the labels come from the metadata of the column", "Set labels.")
    column = model.getInputCol()
    if columns.is_read(column):
        raise refuse(model, f"inputCol={column!r}", "a column of the DataFrame may have nulls")
    numbers = columns.finite(columns.number(column), type(model).__name__, "raise")
    # A fraction is cut off.
    low, high = np.nextafter(-1.0, 0.0), np.nextafter(float(len(labels)), 0.0)
    within = ops.Within(np.full(1, low), np.full(1, high), f"a number that is no place of the {len(labels)} labels")
    # Of bad rows, any place will do that is there.
    filled = columns.add(ops.Impute(np.zeros(1), float("nan")), columns.add(within, numbers))
    places = columns.add(ops.Cast("int64"), columns.add(ops.Clip(0.0, len(labels) - 1.0), filled))
    columns.added[model.getOutputCol()] = ops.Output(places, flat=True, labels=np.array(labels))
    columns.roles["predict"] = model.getOutputCol()


@stage("CountVectorizerModel")
def lower_counts(model: Any, columns: Columns) -> None:
    """Lower how often each word of the vocabulary is in a list of words; a null in place of a list is bad."""
    if model.getMinTF() != 1:
        raise refuse(model, f"minTF={model.getMinTF()}", "counts are dropped by the length of the list", "Set minTF=1.")
    columns.set_policy("raise")
    words = ops.Bag(
        columns=np.array([columns.text(model.getInputCol())], np.int64),
        analyzer="list",
        terms=tuple(model.vocabulary),
        binary=model.getBinary(),
    )
    counts = columns.add(ops.HasText(type(model).__name__, "no list of words"), columns.add(words))
    columns.whole.add(counts)
    columns.add_column(model.getOutputCol(), counts, role="transform")


@stage("HashingTF")
def lower_hashing(model: Any, columns: Columns) -> None:
    """Lower how often words are in each of the buckets that they are hashed to, a null too; a null list is bad."""
    # One that Spark 2 saved hashes the last bytes of a word in another way, and says so nowhere else. Spark Connect
    # makes every such stage anew.
    if not is_remote() and model.indexOf(_ODD) != _ODD_HASH % model.getNumFeatures():
        raise refuse(model, "the hash function of Spark 2")
    columns.set_policy("raise")
    words = ops.Bag(
        columns=np.array([columns.text(model.getInputCol())], np.int64),
        analyzer="list of Spark",
        buckets=model.getNumFeatures(),
        binary=model.getBinary(),
    )
    counts = columns.add(ops.HasText(type(model).__name__, "no list of words"), columns.add(words))
    columns.whole.add(counts)
    columns.add_column(model.getOutputCol(), counts, role="transform")


def _may_be_numbers(labels: Sequence[str]) -> bool:
    return all(label in _TRUTHS or _is_number(label) for label in labels)


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
