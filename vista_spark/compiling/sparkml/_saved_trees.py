"""Nodes of Spark ML trees, read from the saved model because the API does not return them in full."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SavedTrees", "saved_table", "saved_trees"]


class SavedTrees(NamedTuple):
    """Nodes of all trees, tree by tree, in the order of their numbers.

    The int64 arrays of shape (nodes,) are the structure: children are indices into this table, -1 for a leaf;
    ``categories`` are -1 for a split at a threshold. ``limits`` are thresholds, or the categories that go to the left;
    ``stats`` are impurity statistics of each node, and ``weights`` those of the trees.
    """

    tree: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    categories: NDArray[np.int64]
    prediction: NDArray[np.float64]
    stats: list[NDArray[np.float64]]
    limits: list[NDArray[np.float64]]
    weights: NDArray[np.float64]


def saved_table(model: Any, *parts: str) -> list[Any]:
    """Save a model, and read parts of it as Arrow tables.

    The folder has no scheme, so executors and driver both find it in the default file system.
    """
    folder = Path(tempfile.gettempdir()) / f"compiled-{uuid4().hex}"
    try:
        model.write().save(str(folder))
        session = SparkSession.active()
        return [session.read.parquet(str(folder / part)).toArrow() for part in parts]
    finally:
        _remove(SparkSession.active(), folder)


def _remove(session: SparkSession, folder: Path) -> None:
    """Remove a folder, by dropping a database at its location if only Spark reaches its file system."""
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        return
    name = f"compiled_{uuid4().hex}"
    try:
        session.sql(f"CREATE DATABASE {name} LOCATION '{folder}'")
        session.sql(f"DROP DATABASE {name} CASCADE")
    except PySparkException as error:
        warnings.warn(f"Temporary trees in {folder} could not be removed ({error}). Remove the folder.", stacklevel=2)


def saved_trees(model: Any, *, several: bool) -> SavedTrees:
    """Read the trees of a model."""
    if several:
        data, heads = saved_table(model, "data", "treesMetadata")
        numbers = data.column("treeID").to_numpy()
        nodes = data.column("nodeData").combine_chunks()
        # By position: releases name these columns differently.
        order = np.argsort(heads.column(0).to_numpy(), kind="stable")
        weights = heads.column(2).to_numpy()[order].astype(np.float64)
    else:
        (data,) = saved_table(model, "data")
        nodes = data.to_struct_array().combine_chunks()
        numbers, weights = np.zeros(len(nodes), np.int64), np.ones(1)
    columns = dict(zip(nodes.type.names, nodes.flatten(), strict=True))
    ids = columns["id"].to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.lexsort([ids, numbers])
    tree, ids = numbers[order].astype(np.int64), ids[order]
    starts = np.searchsorted(tree, tree)
    split = dict(zip(columns["split"].type.names, columns["split"].flatten(), strict=True))

    def ordered(column: Any, kind: Any) -> NDArray[Any]:
        array: NDArray[Any] = column.to_numpy(zero_copy_only=False)[order].astype(kind)
        return array

    def child(name: str) -> NDArray[np.int64]:
        place = ordered(columns[name], np.int64)
        # Nodes are numbered in preorder from 0 in each tree.
        return np.where(place < 0, -1, place + starts)

    return SavedTrees(
        tree=tree,
        left=child("leftChild"),
        right=child("rightChild"),
        feature=ordered(split["featureIndex"], np.int64),
        categories=ordered(split["numCategories"], np.int64),
        prediction=ordered(columns["prediction"], np.float64),
        stats=[np.asarray(values, np.float64) for values in _lists(columns["impurityStats"], order)],
        limits=[np.asarray(values, np.float64) for values in _lists(split["leftCategoriesOrThreshold"], order)],
        weights=weights,
    )


def _lists(column: Any, order: NDArray[np.int64]) -> list[Any]:
    values = column.to_pylist()
    return [values[place] for place in order.tolist()]
