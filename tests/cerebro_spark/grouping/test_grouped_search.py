from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyspark import cloudpickle

from cerebro_spark import GroupedModel, GroupedSearch, ModelTrainer, SparkBackend, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=8
    )


def table() -> pd.DataFrame:
    """Rows of groups whose labels depend on the group, and of groups that cannot be trained."""
    draw = np.random.default_rng(3)
    rows = []
    for state, city, count in [
        ("CA", "LA", 40),
        ("CA", "SF", 24),
        ("NY", "NY", 40),
        ("NY", "Troy", 3),
        ("TX", None, 9),
    ]:
        for _ in range(count):
            x = draw.normal(size=2)
            label = int((x[0] > 0) == (state == "CA"))
            rows.append((state, city, *x, label))
    rows += [("NV", "Reno", *draw.normal(size=2), 1) for _ in range(12)]
    rows += [("NV", "Elko", None, 0.0, number % 2) for number in range(6)]
    return pd.DataFrame(rows, columns=["state", "city", "a", "b", "label"])


def search(spark: SparkSession, store: Store, **settings: Any) -> GroupedSearch:
    defaults: dict[str, Any] = {
        "group_by": ["state", "city"],
        "search_space": {"lr": [0.5, 0.0]},
        "num_epochs": 2,
        "feature_columns": ["a", "b"],
        "label_columns": ["label"],
        "min_rows": 5,
    }
    backend = SparkBackend(spark, num_workers=2)
    return GroupedSearch(backend=backend, store=store, trainer_fn=trainer, **(defaults | settings))


@pytest.fixture(scope="module")
def fitted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[GroupedSearch, GroupedModel]:
    made = search(spark, Store.from_uri(str(tmp_path_factory.mktemp("store"))))
    return made, made.fit(spark.createDataFrame(table()), run_id="first")


def test_a_row_with_a_reason_for_each_group(fitted: tuple[GroupedSearch, GroupedModel]) -> None:
    groups = fitted[1].groups.toPandas().set_index(["state", "city"])
    assert groups.index.is_unique
    assert groups["level"].value_counts().to_dict() == {0: 1, 1: 4, 2: 6}
    reasons = groups["reason"].to_dict()
    assert reasons.pop(("NY", "Troy")) == "3 rows, fewer than min_rows=5"
    assert reasons.pop(("NV", "Reno")) == reasons.pop(("NV", None)) == "one class, 1, in all 9 rows to train on"
    assert reasons.pop(("NV", "Elko")) == "no complete row (null in 'a': 6)"
    assert set(reasons.values()) == {None}
    la = groups.loc[("CA", "LA")]
    assert (la["rows"], la["held_out"], la["status"], la["scored_on"]) == (30, 10, "finished", "validation")
    assert groups.loc[(None, None)]["rows"] + groups.loc[(None, None)]["held_out"] == 128
    # A rate of 0 learns nothing.
    assert set(groups["params"].dropna()) == {'{"lr": 0.5}'}
