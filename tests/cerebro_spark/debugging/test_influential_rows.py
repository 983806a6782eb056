"""Influential rows of a search's best configuration, by the states that its run keeps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyspark import cloudpickle

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from cerebro_spark.debugging import find_influential_rows
from cerebro_spark.errors import ColumnError, InvalidArgumentError, NoModelError
from udfs.training import initial_seed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from cerebro_spark import Selection

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=params["lr"]),
        loss=torch.nn.BCEWithLogitsLoss(),
        batch_size=8,
    )


def table(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    points = random.normal(size=(rows, 2))
    return pd.DataFrame({"key": range(rows), "a": points[:, 0], "b": points[:, 1], "label": (points[:, 0] > 0) * 1})


def search(spark: SparkSession, store: Store, **settings: Any) -> GridSearch:
    usual: dict[str, Any] = {
        "backend": SparkBackend(spark, num_workers=2, threads=1),
        "store": store,
        "trainer_fn": trainer,
        "search_space": {"lr": [0.3]},
        "num_epochs": 3,
        "feature_columns": ["a", "b"],
        "label_columns": ["label"],
        "test_fraction": 0,
        "keep": "epochs",
        "progress": False,
    }
    return GridSearch(**usual | settings)


@pytest.fixture(scope="module")
def selection(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Selection:
    folder: Path = tmp_path_factory.mktemp("influence")
    return search(spark, Store.from_uri(str(folder))).fit(spark.createDataFrame(table(80, 0)))


def by_plain_loop(selection: Selection, train: pd.DataFrame, targets: pd.DataFrame) -> np.ndarray:
    """Add up dot products of gradients of the last layer, a row and a state at a time."""
    from udfs.handlers import open_session

    session: Any = open_session(trainer, {"lr": 0.3}, initial_seed(selection.spec.seed, "c000"))
    total = np.zeros((len(targets), len(train)))
    for read in selection.epoch_states("c000").values():
        session.restore(read())
        net = session.model.eval()

        def gradients(rows: pd.DataFrame, net: Any = net) -> torch.Tensor:
            found = []
            for row in rows.itertuples():
                output = net(torch.tensor([[row.a, row.b]], dtype=torch.float32))[:, 0]
                loss = torch.nn.functional.binary_cross_entropy_with_logits(output, torch.tensor([float(row.label)]))
                parts = torch.autograd.grad(loss, list(net[2].parameters()))
                found.append(torch.cat([part.flatten() for part in parts]))
            return torch.stack(found)

        total += 0.3 * (gradients(targets) @ gradients(train).T).numpy()
    return total


def test_the_strongest_rows_are_those_of_a_plain_loop(spark: SparkSession, selection: Selection) -> None:
    train, targets = table(80, 0), table(3, 1).assign(key=["x", "y", "z"])
    expected = by_plain_loop(selection, train, targets)
    assert len(selection.epoch_states("c000")) == 3
    found = find_influential_rows(
        selection, spark.createDataFrame(train), spark.createDataFrame(targets), id_column="key", k=4
    )
    assert list(found.columns) == ["target_id", "kind", "rank", "key", "influence", "self_influence"]
    for place, name in enumerate("xyz"):
        part = found[found["target_id"] == name]
        order = np.argsort(-expected[place])
        proponents, opponents = part[part["kind"] == "proponent"], part[part["kind"] == "opponent"]
        assert proponents["key"].tolist() == order[:4].tolist() and proponents["rank"].tolist() == [1, 2, 3, 4]
        assert opponents["key"].tolist() == order[::-1][:4].tolist()
        assert np.allclose(part["influence"], expected[place][part["key"]], rtol=1e-4)
    assert (found["self_influence"] > 0).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"id_column": "keyy"}, ColumnError, "target_df has no column 'keyy'; did you mean 'key'"),
        ({"trial_id": "c009"}, NoModelError, "'c009' has no model"),
        ({"layers": ["3"]}, InvalidArgumentError, "layers must name modules of the network, got '3'"),
        ({"k": 0}, InvalidArgumentError, "k must be"),
    ],
)
def test_bad_input_is_refused(
    spark: SparkSession, selection: Selection, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    df = spark.createDataFrame(table(4, 2))
    with pytest.raises(error, match=message):
        find_influential_rows(selection, df, df, **{"id_column": "key"} | options)


def test_too_many_targets_are_refused(spark: SparkSession, selection: Selection) -> None:
    many = spark.range(1001).selectExpr("id AS key", "0.5D AS a", "0.5D AS b", "1 AS label")
    with pytest.raises(InvalidArgumentError, match="target_df must have at most 1000 rows, got 1001"):
        find_influential_rows(selection, many, many, id_column="key")


def test_a_run_without_states_of_epochs_is_refused(spark: SparkSession, store: Store) -> None:
    df = spark.createDataFrame(table(40, 0))
    last = search(spark, store, keep="last", num_epochs=2).fit(df)
    with pytest.raises(InvalidArgumentError, match='Search with keep="epochs"'):
        find_influential_rows(last, df, df.limit(1), id_column="key")
