"""A search with the trainer of an uploaded script, whose text travels to the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from cerebro_spark import GridSearch, SparkBackend
from cerebro_spark.builtin import load_source
from cerebro_spark.errors import TrainerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udfs.store import Store

pytest.importorskip("torch")

SCRIPT = b"""
import torch
from cerebro_spark import ModelTrainer

search_space = {"lr": [0.1]}
feature_columns = ["twice"]
label_columns = ["y"]
num_epochs = 1

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 2)

    def forward(self, x):
        return self.linear(x)

def convert_table(df):
    return df.withColumn("twice", df.x * 2)

def trainer_fn(params):
    net = Network()
    if params["lr"] > 1:
        raise ValueError("too high")
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])
"""


@dataclass
class Context:
    """The part of a request's context that a script's launch uses."""

    spark: SparkSession
    allows_scripts: bool = True

    def blob(self, sha256: str) -> bytes:
        del sha256
        return SCRIPT


def test_a_script_trains_on_the_workers(spark: SparkSession, store: Store) -> None:
    context: Any = Context(spark)
    source = load_source({"script": "abc"}, {}, context)
    common: dict[str, Any] = {
        "backend": SparkBackend(spark, num_workers=1, threads=1),
        "store": store,
        "trainer_fn": source.trainer_fn,
        "progress": False,
        **source.settings,
    }
    table = source.convert_table(spark.createDataFrame([(float(n % 5), n % 2) for n in range(20)], "x double, y int"))
    selection = GridSearch(search_space=source.search_space, **common).fit(table)
    assert selection.best.status == "finished"
    assert selection.transform(table.limit(2)).count() == 2
    with pytest.raises(TrainerError, match=r"too high"):
        GridSearch(search_space={"lr": [2.0]}, **common).fit(table)
