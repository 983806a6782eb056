"""The loop: flip labels, find them, correct them, train again."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import cleanlab.rank
import numpy as np
from pyspark import cloudpickle

from benchmarks.debugging import _data
from cerebro_spark import GridSearch, SparkBackend
from cerebro_spark.debugging import find_label_errors, relabel

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.debugging._data import DataSet
    from cerebro_spark import Store

__all__ = ["LoopResult", "run_loop"]

# The workers have no such modules: their functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(_data)

_FLIPPED, _REVIEWED = 0.05, 0.10


@dataclass(frozen=True, slots=True)
class LoopResult:
    """Figures of one data set. Recalls are of the flipped rows, by the share of rows that are looked at."""

    recall: dict[float, float]
    cleanlab_recall: dict[float, float]
    clean: float
    flipped: float
    corrected: float
    search_seconds: float
    training_seconds: float

    @property
    def recovered(self) -> float:
        """Share of the lost accuracy that the corrections bring back; NaN if nothing is lost."""
        lost = self.clean - self.flipped
        return (self.corrected - self.flipped) / lost if lost > 0 else math.nan


def run_loop(spark: SparkSession, store: Store, data: DataSet, repeats: int, folds: int) -> LoopResult:
    """Run the loop on one data set; accuracies are means over as many networks, each trained in one run."""
    search = GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=store,
        trainer_fn=data.trainer_fn,
        search_space={"repeat": list(range(repeats))},
        num_epochs=data.epochs,
        feature_columns={"x": ["x"]},
        label_columns=["label"],
        image_size=data.image_size,
        test_fraction=0,
        schedule="fixed",
        checkpoints="end",
        progress=False,
    )
    noisy, wrong = data.flipped(_FLIPPED, seed=1)
    right_df, noisy_df = _table(spark, data.train, data), _table(spark, noisy, data)
    begun = time.perf_counter()
    clean = _accuracy(search, right_df, data)
    training = time.perf_counter() - begun
    flipped = _accuracy(search, noisy_df, data)
    seen: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    rank = cleanlab.rank.get_label_quality_scores

    def record(labels: Any, probabilities: Any, **options: Any) -> Any:
        seen.append((labels, probabilities))
        return rank(labels, probabilities, **options)

    begun = time.perf_counter()
    with patch("cleanlab.rank.get_label_quality_scores", record):
        found = find_label_errors(
            search, noisy_df, id_column="id", params={"repeat": 0}, num_epochs=data.fold_epochs, folds=folds
        )
    seconds = time.perf_counter() - begun
    reviewed = found.head(round(_REVIEWED * len(found)))
    # The reviewer knows the right labels.
    corrections = reviewed.assign(corrected_label=data.train.set_index("id").loc[reviewed["id"], "label"].to_numpy())
    corrected_df = relabel(noisy_df, corrections, id_column="id", label_column="label")
    corrected = _accuracy(search, corrected_df, data)
    shares = (0.05, 0.10)
    ids = found["id"].to_numpy(np.int64)
    recall = {share: float(wrong[ids[: round(share * len(ids))]].sum() / wrong.sum()) for share in shares}
    return LoopResult(
        recall, _by_cleanlab(*seen[0], noisy, wrong, shares), clean, flipped, corrected, seconds, training
    )


def _by_cleanlab(
    labels: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    noisy: pd.DataFrame,
    wrong: NDArray[np.bool_],
    shares: tuple[float, ...],
) -> dict[float, float]:
    """Rank the same probabilities with cleanlab alone.

    The number of wrong labels among its first rows is counted by label and probabilities, since it knows no ids.
    """
    order = np.argsort(cleanlab.rank.get_label_quality_scores(labels, probabilities), kind="stable")
    assert (np.sort(labels) == np.sort(noisy["label"].to_numpy())).all()
    # Rows arrive in the order of the ids, because one pass over the table keeps its order.
    return {share: float(wrong[order[: round(share * len(order))]].sum() / wrong.sum()) for share in shares}


def _table(spark: SparkSession, rows: pd.DataFrame, data: DataSet) -> DataFrame:
    plain = list(zip(rows["id"].tolist(), rows["x"], rows["label"].tolist(), strict=True))
    return spark.createDataFrame(plain, f"id bigint, x {data.schema}, label bigint")


def _accuracy(search: GridSearch, df: DataFrame, data: DataSet) -> float:
    """Train the networks, and return their mean accuracy on the held-out rows."""
    selection = search.fit(df)
    found = []
    for trial in selection.trials:
        (outputs, *_) = selection.model(trial.trial_id).network.open()([data.held_out])
        found.append(float((outputs.argmax(axis=1) == data.held_out_labels).mean()))
    return float(np.mean(found))
