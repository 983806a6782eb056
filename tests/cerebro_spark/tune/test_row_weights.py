"""Weights of the rows: which are taken, which are refused, and where the shards and the metrics have them."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pyspark import cloudpickle
from pyspark.sql import functions as F
from searches import FEATURES, adult, estimator, network, plain_loop, search, states

from cerebro_spark import Store, TrainingFunctions
from cerebro_spark.data import prepare
from cerebro_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError, TrainerError
from udfs.shards import load_shard

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark import Selection
    from udfs.shards import PreparedData

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 300
SETTINGS: dict[str, Any] = {"search_space": {"lr": [0.01], "hidden": [8]}, "schedule": "fixed"}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """Rows with the weights 0.5 to 3.5; some rows are equal but for their weight."""
    return adult(spark, ROWS).withColumn("w", 0.5 + F.pmod(F.xxhash64(*FEATURES, F.rand(3)), F.lit(4))).cache()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.from_uri(str(tmp_path_factory.mktemp("weighted")))


@pytest.fixture(scope="module")
def weighted(spark: SparkSession, store: Store, table: DataFrame) -> Selection:
    return search(spark, store, weight_column="w", **SETTINGS).fit(table)


def rows_of(prepared: PreparedData, split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shards = [load_shard(prepared, split, partition) for partition in prepared.partitions]
    assert all(shard.weights is not None for shard in shards)
    return (
        np.concatenate([shard.inputs[0] for shard in shards]),
        np.concatenate([shard.labels[0] for shard in shards]),
        np.concatenate([shard.weights for shard in shards]),
    )


def assert_equal(one: Selection, other: Selection) -> None:
    ((name, ours),), ((same, theirs),) = states(one).items(), states(other).items()
    assert name == same
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        np.testing.assert_array_equal(value, theirs[key], err_msg=key)
    assert one.trials[0].history == other.trials[0].history


@pytest.mark.connect
def test_the_model_is_that_of_a_plain_loop_with_weighted_means(weighted: Selection) -> None:
    (trial,) = weighted.trials
    plain = plain_loop(weighted.prepared, trial.params, trial.trial_id, trial.visits, seed=5)
    held = states(weighted)[trial.trial_id]
    for name, value in plain.items():
        np.testing.assert_array_equal(held[name], value, err_msg=name)


def test_validation_is_a_weighted_mean_over_all_shards(weighted: Selection) -> None:
    (trial,) = weighted.trials
    inputs, labels, weights = rows_of(weighted.prepared, "validation")
    net = network(8).eval()
    net.load_state_dict({name: torch.from_numpy(value) for name, value in states(weighted)[trial.trial_id].items()})
    with torch.no_grad():
        outputs = net(torch.from_numpy(inputs))
    losses = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(labels), reduction="none").numpy()
    right = outputs.argmax(1).numpy() == labels
    assert trial.history[-1]["val_loss"] == pytest.approx(np.average(losses, weights=weights), rel=1e-5)
    assert trial.history[-1]["val_accuracy"] == pytest.approx(np.average(right, weights=weights), rel=1e-5)
    assert trial.history[-1]["val_loss"] != pytest.approx(losses.mean(), rel=1e-4)


def test_rows_keep_their_own_weights(weighted: Selection, table: DataFrame) -> None:
    parts = [rows_of(weighted.prepared, split) for split in ("train", "validation")]
    ours = np.concatenate([np.column_stack([*part]) for part in parts])
    columns = [F.col(name).cast("float") for name in (*FEATURES, "label", "w")]
    theirs = np.asarray(table.select(*columns).collect(), np.float32)
    np.testing.assert_array_equal(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)])


def test_the_same_shards_whatever_the_partitioning(table: DataFrame, tmp_path: Path) -> None:
    digests = []
    for count, partitions in enumerate((1, 7)):
        place = Store.from_uri(str(tmp_path / str(count)))
        # Twice each row, with another weight: the shuffle's key alone does not order them.
        twice = table.union(table.withColumn("w", F.col("w") + 1)).repartition(partitions, F.rand(partitions))
        prepared = prepare(
            twice, place, feature_columns=FEATURES, label_columns=["label"], weight_column="w", num_shards=2
        )
        digests.append([shard.digest for shard in prepared.shards])
    assert digests[0] == digests[1]


@pytest.mark.connect
def test_a_row_without_weight_is_as_if_it_were_not_there(
    spark: SparkSession, store: Store, table: DataFrame, weighted: Selection, caplog: pytest.LogCaptureFixture
) -> None:
    bad = table.withColumns({"w": F.lit(0.0), "age": F.lit(None).cast("double")})
    with caplog.at_level(logging.INFO, "cerebro_spark.data"):
        again = search(spark, store, weight_column="w", errors="raise", **SETTINGS).fit(
            table.union(table.withColumn("w", F.lit(0.0))).union(bad)
        )
    assert f"{2 * ROWS} rows have the weight 0 in 'w'" in "\n".join(caplog.messages)
    assert again.prepared == weighted.prepared
    assert (again.prepared.zero_weights, weighted.prepared.zero_weights) == (2 * ROWS, 0)
    assert_equal(again, weighted)


def test_what_is_no_weight(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    for value, said in (
        ("null", "has null"),
        ("double('nan')", "has NaN"),
        ("-0.5D", r"has -0\.5"),
        ("double('infinity')", "has Infinity"),
        ("1e39D", r"has 1\.0E39"),
        ("1e-60D", r"has 1\.0E-60"),
    ):
        given = table.withColumn("w", F.when(F.col("age") > 1, F.expr(value)).otherwise(1.0))
        with pytest.raises(ColumnError, match=rf"weight column 'w' {said} \(\d+ such rows\).*not negative"):
            search(spark, tmp_path, weight_column="w").fit(given)
    with pytest.raises(EmptyInputError, match="every row has the weight 0 in 'w'"):
        search(spark, tmp_path, weight_column="w").fit(table.withColumn("w", F.lit(0)))
    words = table.withColumn("word", F.lit("heavy"))
    for name, error, said in (
        ("v", ColumnError, "weight must be one of the columns .*got 'v'"),
        ("age", ColumnError, "must not be a feature or a label"),
        ("label", ColumnError, "must not be a feature or a label"),
        ("word", ColumnError, "weight 'word' must be a number, got string"),
        (["w"], InvalidArgumentError, "weight_column must be a text or None, got"),
    ):
        with pytest.raises(error, match=said):
            search(spark, tmp_path, weight_column=name).fit(words)
    assert not list(tmp_path.glob("runs/*"))


def test_prepared_data_keep_their_weights(spark: SparkSession, tmp_path: Path, weighted: Selection) -> None:
    for name in (None, "other"):
        with pytest.raises(
            InvalidArgumentError, match=rf"weight_column must be that of the prepared data .*'w', got {name!r}"
        ):
            search(spark, tmp_path, weight_column=name).fit(weighted.prepared)
    assert "weights of the rows: w" in weighted.prepared.explain()


def test_functions_that_ignore_weights_are_refused(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    def functions(_params: dict[str, Any]) -> TrainingFunctions:
        return TrainingFunctions(model_fn=lambda: torch.nn.Linear(5, 2), train_fn=lambda *_: {"loss": 0.0})

    with pytest.raises(TrainerError, match="uses_weights=True"):
        search(spark, tmp_path, weight_column="w", trainer_fn=functions, metric="loss").fit(table)


# ---- Spark ML's Param


@pytest.mark.connect
def test_weights_are_a_param(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path)
    plain, emptied, heavy = (
        np.asarray(stage.fit(table).transform(table).select("rawPrediction").toPandas()["rawPrediction"].tolist())
        for stage in (made, made.copy().setWeightCol(""), made.copy().setWeightCol("w"))
    )
    np.testing.assert_array_equal(plain, emptied)
    assert not np.array_equal(plain, heavy)
    with pytest.raises(InvalidArgumentError, match=r"several weightCol \(None, 'w'\)"):
        made.fitMultiple(table, [{}, {made.weightCol: "w"}])
    with pytest.raises(InvalidArgumentError, match=r"must not be given.*a Param: setWeightCol\('w'\)"):
        estimator(spark, tmp_path, weight_column="w")


def test_a_class_that_has_rows_without_weight_only(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path).setWeightCol("w")
    light = table.withColumn("w", F.when(F.col("label") == 1, 0.0).otherwise(1.0))
    with pytest.raises(LabelError, match="no row to train on of class 1"):
        made.fit(light)
