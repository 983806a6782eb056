"""A script from its upload to a trained search: checked by a pool, and launched over the REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("torch")

import pandas as pd
from live_server import TOKEN, live_server
from waiting import until

from cerebro_spark import SparkBackend
from cerebro_spark.launching import LAUNCH_HANDLERS
from cerebro_spark.scripts import HANDLER
from cerebro_spark.steering import Client
from cerebro_spark.steering.runner import Pool

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from udfs.store import Store

SCRIPT = b"""
import torch
from cerebro_spark import ModelTrainer

search_space = {"lr": [0.1, 0.01], "width": [2]}
feature_columns = ["twice"]
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
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])
"""


def test_an_uploaded_script_trains_on_the_workers(
    spark: SparkSession, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = str(tmp_path / "rows.parquet")
    pd.DataFrame({"x": [float(n % 5) for n in range(20)], "y": [n % 2 for n in range(20)]}).to_parquet(table)
    backend = SparkBackend(spark, num_workers=1, threads=1)
    monkeypatch.setenv("CEREBRO_TOKEN", TOKEN)
    with (
        live_server(tmp_path / "server.sqlite") as url,
        Pool(backend, store, name="p", allow_scripts=True, handlers=[*LAUNCH_HANDLERS, HANDLER]) as pool,
    ):
        pool.serve(url)
        client = Client(url, TOKEN)
        until(lambda: any(each["is_live"] for each in client.pools()))

        def result(kind: str, document: dict[str, Any]) -> Any:
            record = client.wait_for(client.request(kind, document)["id"], 120)
            assert record["state"] == "done", record["message"]
            return record["result"]

        sha256 = client.upload(SCRIPT)["sha256"]
        shown = result("script", {"script": sha256})
        assert (shown["trainer"], shown["text"].encode()) == (True, SCRIPT)
        broken = client.request("script", {"script": client.upload(b"x = 1\nx +\n")["sha256"]})
        assert client.wait_for(broken["id"], 120)["message"] == "line 2: SyntaxError: invalid syntax"
        document = {
            "run": "mine",
            "procedure": "grid",
            "table": table,
            "label_columns": ["y"],
            "source": {"script": sha256},
            "search_space": {"lr": {"kind": "choice", "values": [0.1]}, "width": {"kind": "fixed", "value": 2}},
            "settings": {},
        }
        assert result("launch", document) == {"run": "mine"}
        selection = pool.searches["mine"].experiment.wait(120)
    assert [(trial.params, trial.status) for trial in selection.trials] == [({"lr": 0.1, "width": 2}, "finished")]
