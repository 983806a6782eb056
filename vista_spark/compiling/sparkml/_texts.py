"""Stages of Spark ML that turn texts and words into numbers, and numbers into texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.utils import is_remote

from optimizer.compiling import Bag, Cast, Clip, Encode, HasText, Impute, Known, Output, Within
from vista_spark.compiling.sparkml._assembling import POLICIES
from vista_spark.compiling.sparkml._stages import refuse, stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_counts", "lower_hashing", "lower_index", "lower_labels"]

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
                "has labels that Spark SQL may make of numbers: texts compile, if example= says that they are texts",
            )
        codes = columns.add(Encode(np.array([columns.text(column)], np.int64), (tuple(labels),)))
        if handle != "keep":
            columns.hold(POLICIES[handle])
            codes = columns.add(Known(np.full(1, len(labels), np.int64), type(model).__name__), codes)
        columns.give(made, codes, flat=True, role="transform")
        columns.whole.add(columns.added[made].node)


@stage("IndexToString")
def lower_labels(model: Any, columns: Columns) -> None:
    """Lower the label at each place; a number that is no place is bad, as it is an error there."""
    labels = model.getLabels() if model.isSet("labels") else []
    if not labels:
        raise refuse(model, "labels=[]", "takes them from the column's metadata: set labels")
    column = model.getInputCol()
    if columns.is_read(column):
        raise refuse(model, f"inputCol={column!r}", "reads a column of the DataFrame, with nulls: not translated")
    numbers = columns.finite(columns.number(column), type(model).__name__, "raise")
    # A fraction is cut off.
    low, high = np.nextafter(-1.0, 0.0), np.nextafter(float(len(labels)), 0.0)
    within = Within(np.full(1, low), np.full(1, high), f"a number that is no place of the {len(labels)} labels")
    # Of bad rows, any place will do that is there.
    held = columns.add(Impute(np.zeros(1), float("nan")), columns.add(within, numbers))
    places = columns.add(Cast("int64"), columns.add(Clip(0.0, len(labels) - 1.0), held))
    columns.added[model.getOutputCol()] = Output(places, flat=True, labels=np.array(labels))
    columns.roles["predict"] = model.getOutputCol()


@stage("CountVectorizerModel")
def lower_counts(model: Any, columns: Columns) -> None:
    """Lower how often each word of the vocabulary is in a list of words; a null in place of a list is bad."""
    if model.getMinTF() != 1:
        raise refuse(model, f"minTF={model.getMinTF()}", "drops counts by the length of the list: minTF=1 compiles")
    columns.hold("raise")
    words = Bag(
        columns=np.array([columns.text(model.getInputCol())], np.int64),
        analyzer="list",
        terms=tuple(model.vocabulary),
        binary=model.getBinary(),
    )
    counts = columns.add(HasText(type(model).__name__, "no list of words"), columns.add(words))
    columns.whole.add(counts)
    columns.give(model.getOutputCol(), counts, role="transform")


@stage("HashingTF")
def lower_hashing(model: Any, columns: Columns) -> None:
    """Lower how often words are in each of the buckets that they are hashed to, a null too; a null list is bad."""
    # One that Spark 2 saved hashes the last bytes of a word in another way, and says so nowhere else. Spark Connect
    # makes every such stage anew.
    if not is_remote() and model.indexOf(_ODD) != _ODD_HASH % model.getNumFeatures():
        raise refuse(model, "the hash function of Spark 2")
    columns.hold("raise")
    words = Bag(
        columns=np.array([columns.text(model.getInputCol())], np.int64),
        analyzer="list of Spark",
        buckets=model.getNumFeatures(),
        binary=model.getBinary(),
    )
    counts = columns.add(HasText(type(model).__name__, "no list of words"), columns.add(words))
    columns.whole.add(counts)
    columns.give(model.getOutputCol(), counts, role="transform")


def _may_be_numbers(labels: Sequence[str]) -> bool:
    return all(label in _TRUTHS or _is_number(label) for label in labels)


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
