"""Label errors: every row is scored by a network that did not train on it, and cleanlab ranks them."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from pyspark import cloudpickle

pytest.importorskip("cleanlab", reason="pip install 'cerebro-spark[debugging]'")

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store, TrainingFunctions
from cerebro_spark.debugging import find_label_errors, find_outliers
from cerebro_spark.errors import ColumnError, InvalidArgumentError, LabelError, RunError, TrainerError
from cerebro_spark.hopper import Journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Joined(torch.nn.Module):
    """A network of three inputs that is large enough to learn every row by heart."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2 + 3 + 192, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))

    def forward(self, numbers: torch.Tensor, vector: torch.Tensor, picture: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([numbers, vector, picture.flatten(1)], dim=1))


def by_heart(params: dict[str, Any]) -> ModelTrainer:
    net = Joined()
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=params["lr"]),
        loss=torch.nn.CrossEntropyLoss(),
        batch_size=16,
    )


def linear(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Linear(2, 3)
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=params["lr"]),
        loss=torch.nn.CrossEntropyLoss(),
        batch_size=16,
    )


def own_loop(params: dict[str, Any]) -> TrainingFunctions:
    return TrainingFunctions(model_fn=lambda params: None, train_fn=lambda *_: {}, input_fn=None)


def search(spark: SparkSession, store: Store, **settings: Any) -> GridSearch:
    usual: dict[str, Any] = {
        "backend": SparkBackend(spark, num_workers=2, threads=1),
        "store": store,
        "trainer_fn": linear,
        "search_space": {"lr": [0.05]},
        "num_epochs": 5,
        "feature_columns": ["a", "b"],
        "label_columns": ["label"],
        "progress": False,
    }
    return GridSearch(**usual | settings)


def clusters(rows: int, seed: int = 0) -> pd.DataFrame:
    """Three separate classes, of whose labels every twentieth is wrong."""
    random = np.random.default_rng(seed)
    right = random.integers(0, 3, rows)
    centres = np.array([[0.0, 4.0], [4.0, 0.0], [-4.0, -4.0]])
    points = centres[right] + random.normal(size=(rows, 2))
    wrong = np.arange(rows) % 20 == 0
    given = np.where(wrong, (right + 1) % 3, right)
    ids = [f"r{number:04d}" for number in range(rows)]
    return pd.DataFrame({"id": ids, "a": points[:, 0], "b": points[:, 1], "label": given, "right": right})


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(clusters(400)).cache()


def test_wrong_labels_come_first(spark: SparkSession, store: Store, table: DataFrame) -> None:
    found = find_label_errors(search(spark, store), table, id_column="id", folds=3)
    assert list(found.columns) == ["id", "given_label", "suggested_label", "score", "is_error", "rank"]
    truth = clusters(400).set_index("id")
    first = found.head(20)
    wrong = truth.loc[first["id"]]
    assert (wrong["label"] != wrong["right"]).mean() >= 0.9
    assert (first["suggested_label"].to_numpy() == wrong["right"].to_numpy()).mean() >= 0.9
    assert found["rank"].tolist() == list(range(1, 401)) and found["score"].is_monotonic_increasing
    assert set(found.loc[found["is_error"], "id"]) <= set(found["id"].head(40))
    # Folds are no configuration to go on with: a resumed run would train on all rows.
    (run,) = store.list("runs")
    assert len(Journal(store, run).spec().configs) == 3
    with pytest.raises(RunError, match="call find_label_errors again"):
        search(spark, store).resume(run)


def test_no_row_is_scored_by_a_network_that_trained_on_it(spark: SparkSession, store: Store) -> None:
    """Labels are drawn at random: a network that has seen a row knows its label, others are right for half of them."""
    random = np.random.default_rng(5)
    rows = [
        (
            number,
            int(random.integers(0, 50)),
            float(random.normal()),
            [float(value) for value in random.normal(size=3)],
            png(random.integers(0, 256, (8, 8, 3)).astype(np.uint8)),
            int(random.integers(0, 2)),
        )
        for number in range(240)
    ]
    df = spark.createDataFrame(rows, "id int, whole int, part double, vector array<float>, picture binary, label int")
    inputs = {"numbers": ["whole", "part"], "vector": ["vector"], "picture": ["picture"]}
    noisy = search(
        spark,
        store,
        trainer_fn=by_heart,
        feature_columns=inputs,
        image_size=8,
        search_space={"lr": [0.003]},
        test_fraction=0,
        num_epochs=25,
    )
    found = find_label_errors(noisy, df, id_column="id", folds=3)
    agreement = (found["given_label"] == found["suggested_label"]).mean()
    assert 0.35 < agreement < 0.65
    # The same network does learn the rows by heart.
    model = noisy.fit(df.repartition(2)).best_model
    known = find_label_errors(model, df, id_column="id")
    assert (known["given_label"] == known["suggested_label"]).mean() > 0.85


def test_a_model_scores_a_held_out_table(spark: SparkSession, store: Store, table: DataFrame) -> None:
    from cleanlab.rank import get_label_quality_scores

    model = search(spark, store).fit(table).best_model
    held_out = clusters(120, seed=9)
    held_out["a"] = held_out["a"].where(held_out.index != 7)
    df = spark.createDataFrame(held_out)
    found = find_label_errors(model, df, id_column="id", score="normalized_margin")
    last = found.iloc[-1]
    assert last["id"] == "r0007" and np.isnan(last["score"]) and pd.isna(last["rank"]), "it stays visible"
    scored = model.transform(df).toPandas().set_index("id").drop("r0007")
    chances = np.stack([vector.toArray() for vector in scored["probability"]])
    theirs = get_label_quality_scores(scored["label"].to_numpy(), chances, method="normalized_margin")
    ours = found.head(119).set_index("id").loc[scored.index, "score"]
    assert np.allclose(ours, theirs, atol=1e-6)
    # Near rows of the model, whose one layer reads a and b.
    strange = find_outliers(model, df, id_column="id")
    assert len(strange) == 120 and strange["id"].iloc[-1] == "r0007" and strange["score"][:119].between(0, 1).all()


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({}, {"id_column": "idd"}, ColumnError, "has no column 'idd'; did you mean 'id'"),
        ({}, {"id_column": "rank"}, ColumnError, "must differ from the columns of the result, .*, got 'rank'"),
        ({"id": ["x"] * 40}, {}, ColumnError, "a different value in each row, got 'id' with 39 repeated"),
        ({"id": [None] + ["x"] * 39}, {}, ColumnError, "must have no nulls, got 'id' with 1"),
        ({"label": [1.5] * 40}, {}, LabelError, "must have class numbers, got 1.5"),
        ({"label": [0] * 38 + [1] * 2}, {}, LabelError, "at least 5 rows for folds=5, got 2 of class 1"),
        ({"label": [0] * 40}, {}, LabelError, "at least 2 classes, got 1"),
        ({}, {"folds": 1}, InvalidArgumentError, "folds must be a whole number of at least 2, got 1"),
        ({}, {"score": "margin"}, InvalidArgumentError, "score must be one of self_confidence"),
    ],
)
def test_bad_input_is_refused_before_training(
    spark: SparkSession,
    store: Store,
    change: dict[str, Any],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    df = spark.createDataFrame(clusters(40).assign(**change))
    with pytest.raises(error, match=message):
        find_label_errors(search(spark, store), df, **{"id_column": "id"} | options)
    assert not store.list("runs")


def test_what_cannot_be_cross_fitted_is_refused(spark: SparkSession, store: Store, table: DataFrame) -> None:
    two = search(spark, store, search_space={"lr": [0.05, 0.01]})
    with pytest.raises(InvalidArgumentError, match=r"got None with 2 configurations\. Pass selection\.best_params"):
        find_label_errors(two, table, id_column="id")
    with pytest.raises(TrainerError, match="got TrainingFunctions, whose train_fn reads all rows"):
        find_label_errors(search(spark, store, trainer_fn=own_loop), table, id_column="id")


def test_a_label_that_the_model_does_not_know_is_named(spark: SparkSession, store: Store, table: DataFrame) -> None:
    model = search(spark, store, num_epochs=1).fit(table).best_model
    df = spark.createDataFrame(clusters(30).assign(label=7))
    with pytest.raises(LabelError, match="must have the classes of the model, 0 to 2, got 7"):
        find_label_errors(model, df, id_column="id")
