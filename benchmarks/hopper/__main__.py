"""Model hopping against the other ways to train many configurations: the table of Cerebro's Figure 3.7, on two cores.

``python -m benchmarks.hopper`` trains a few perceptrons on the KDD census, encoded for a network, in every way on the
same shards, with the same optimiser and one thread a worker, and ends within five minutes. What counts are ratios of
seconds of training and validation; loading, starting Python and importing torch come before the clock in all, and are
noted for ours. Two independent processes of the bare loop show what the two cores give. All-reduce is so slow that it
trains one configuration for one epoch, and its seconds and bytes are scaled; ``--all-reduce full`` trains them all.
With ``--horovod`` Horovod does it too, where ``examples/build_horovod.sh`` has built it.
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.ml.feature import OneHotEncoder
from search_data import KDD_NUMBERS, kdd  # a program of the examples, not a package

from benchmarks.harness.report import Report, load_average
from benchmarks.hopper._arms import BATCH, Arm, Work, network, optimizer_of, train_all
from benchmarks.hopper.schedules import HopWorkload, simulate
from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store, prepare
from udfs.shards import PreparedData
from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark.hopper import Event

_WORKERS = 2
# A category of more values than this would be most of the network's inputs.
_FEW = 10

_HOW = {
    "bare loop, one process": "one configuration after the other, all rows",
    "bare loops, two processes": "the same, half of the configurations each",
    "model hopper (ours)": "each on every shard, hopping between the workers",
    "task-parallel": "one configuration a Spark task, all rows in every task",
    "averaging": "each on all shards at once, weights averaged every epoch",
    "all-reduce": "each on all shards at once, gradients averaged every step",
    "all-reduce, Horovod": "the same, by Horovod's optimiser",
}


@dataclass(frozen=True)
class Measured:
    """Measurements of one way to train.

    Attributes
    ----------
    seconds : float
        Of training and validation.
    cpu : float
        Seconds of CPU over seconds and workers.
    sent, stored : int
        Bytes between processes, and copies of the data times its size.
    errors : tuple of float
        By epoch, the best configuration's validation error.
    around, idle, whole : float
        Of ours: seconds of a worker in scheduling, hops and checkpoints, and without work; and seconds with the start
        of the workers.
    units : dict of str to float
        Of ours: seconds of a training unit by configuration.
    """

    seconds: float
    cpu: float
    sent: int
    stored: int
    errors: tuple[float, ...]
    around: float = 0.0
    idle: float = 0.0
    whole: float = 0.0
    units: dict[str, float] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train in every way and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="of the census; at most 199,523")
    parser.add_argument("--configs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--hidden", default="512,256", help="units of the two hidden layers")
    parser.add_argument(
        "--all-reduce", choices=("part", "full"), default="part", help="part: one configuration, epoch 0"
    )
    parser.add_argument(
        "--horovod", action="store_true", help="all-reduce by Horovod too; examples/build_horovod.sh builds it"
    )
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.bare:
        _bare_child(json.loads(options.bare))
        return
    if options.horovod and importlib.util.find_spec("horovod") is None:
        parser.error(f"--horovod: there is none; examples/build_horovod.sh {sys.executable} builds it")
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
        table, columns = _census(spark, options.rows, Path(folder))
        prepared = prepare(
            table,
            store,
            feature_columns=columns,
            label_columns=["label"],
            num_shards=_WORKERS,
        )
        work = Work(prepared, tuple(configs), options.epochs, seed=1)
        together = {"all-reduce": "all-reduce"} | ({"all-reduce, Horovod": "horovod"} if options.horovod else {})
        whole = options.all_reduce == "full"
        found = [_round(spark, store, work, together, whole=whole) for _ in range(options.repeats)]
        _report(found, work, options, load)


def _census(spark: SparkSession, rows: int, folder: Path) -> tuple[DataFrame, list[str]]:
    """The KDD census with its numbers scaled and its smaller categories as indicator vectors; and these columns."""
    table = kdd(rows, folder)
    words = [name for name in table if name not in {*KDD_NUMBERS, "label"} and table[name].nunique() <= _FEW]
    path = str(folder / "kdd.parquet")
    table[[*KDD_NUMBERS, *words, "label"]].to_parquet(path)
    vectors = [f"{name}_vector" for name in words]
    df = spark.read.parquet(path)
    return OneHotEncoder(inputCols=words, outputCols=vectors).fit(df).transform(df), [*KDD_NUMBERS, *vectors]


def _round(
    spark: SparkSession, store: Store, work: Work, together: dict[str, str], *, whole: bool
) -> dict[str, Measured]:
    """Run every way once; ``together`` has those that average every step, by name."""
    size = sum(shard.nbytes for shard in work.prepared.shards)
    found = {"bare loop, one process": _bare(work, [list(range(len(work.configs)))], size)}
    halves = [list(range(number, len(work.configs), _WORKERS)) for number in range(_WORKERS)]
    found["bare loops, two processes"] = _bare(work, halves, size)
    found["model hopper (ours)"] = _ours(spark, store, work, size)
    found["task-parallel"] = _spark(spark, work, "task-parallel", size)
    found["averaging"] = _spark(spark, work, "averaging", size)
    taken = work if whole else replace(work, configs=work.configs[:1], epochs=1)
    times = 1 if whole else len(work.configs) * work.epochs
    for name, how in together.items():
        part = _spark(spark, taken, how, size)
        found[name] = replace(part, seconds=times * part.seconds, sent=times * part.sent)
    return found


def _bare(work: Work, shares: list[list[int]], size: int) -> Measured:
    order = {"prepared": work.prepared.to_dict(), "store": work.prepared.store.uri, "configs": list(work.configs)}
    order |= {"epochs": work.epochs, "seed": work.seed}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hopper", "--bare", json.dumps(order | {"share": share})],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for share in shares
    ]
    said = [json.loads(child.communicate()[0].splitlines()[-1]) for child in running]
    seconds = max(one["seconds"] for one in said)
    cpu = sum(one["cpu"] for one in said) / seconds / len(shares)
    return Measured(seconds, cpu, 0, len(shares) * size, _best(errors for one in said for errors in one["errors"]))


def _bare_child(order: dict[str, Any]) -> None:
    prepared = PreparedData.load(Store.from_uri(order["store"]), order["prepared"]["name"])
    work = Work(prepared, tuple(order["configs"]), order["epochs"], order["seed"])
    seconds, cpu, errors = train_all(work, order["share"])
    print(json.dumps({"seconds": seconds, "cpu": cpu, "errors": list(errors.values())}))


def _best(errors: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(min(epoch) for epoch in zip(*errors, strict=True))


def _ours(spark: SparkSession, store: Store, work: Work, size: int) -> Measured:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        import torch  # on the workers

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
        metric="accuracy",
        progress=False,
        seed=work.seed,
    ).fit(work.prepared)
    events = selection.outcome.events
    seconds = max(event.ended for event in events) - min(event.began for event in events)
    inside = sum(event.seconds for event in events) / _WORKERS
    given = sum(event.ended - event.began for event in events) / _WORKERS
    state = max(event.fetched_bytes for event in events)
    return Measured(
        seconds,
        sum(selection.outcome.cpu_seconds.values()) / seconds / _WORKERS,
        sum(event.fetched_bytes for event in events),
        size + len(work.configs) * state,
        _best([1.0 - epoch["val_accuracy"] for epoch in trial.history] for trial in selection.trials),
        given - inside,
        seconds - given,
        selection.outcome.seconds,
        {trial.trial_id: _unit(events, trial.trial_id) for trial in selection.trials},
    )


def _unit(events: Sequence[Event], config: str) -> float:
    return statistics.median(event.seconds for event in events if event.kind == "train" and event.trial_id == config)


def _speedup(units: dict[str, float], workers: int) -> float:
    """Compute the speed-up over one worker of an epoch of 256 configurations with the measured unit times."""
    seconds = np.resize(list(units.values()), 256)
    return float(seconds.sum() * workers / simulate(HopWorkload(np.outer(seconds, np.ones(workers)))).makespan)


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
        _best(row["errors"] for row in rows),
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
        ("way", "seconds", "CPU", "sent MiB", "data stored MiB", "best validation error by epoch", "how"),
        [
            (
                way,
                f"{seconds[way]:.1f}",
                f"{statistics.median(turn[way].cpu for turn in found):.0%}",
                f"{last[way].sent / 2**20:,.1f}",
                f"{last[way].stored / 2**20:,.1f}",
                ", ".join(f"{error:.4f}" for error in last[way].errors),
                _HOW[way],
            )
            for way in ways
        ],
    )
    name = "model hopper (ours)"
    rounds = [turn[name] for turn in found]
    ours = rounds[-1]
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
    by_horovod = seconds.get("all-reduce, Horovod")
    if by_horovod is not None:
        report.ratio("vs_horovod", by_horovod / seconds[name], f"Horovod, global batch {BATCH} / ours", 3.0)
        report.ratio("horovod_vs_allreduce", by_horovod / seconds["all-reduce"], "all-reduce, Horovod / all-reduce")
    report.ratio("vs_averaging", seconds["averaging"] / seconds[name], "averaging every epoch / ours")
    report.ratio(
        "storage_vs_task_parallel", last["task-parallel"].stored / ours.stored, "bytes of data, task-parallel / ours"
    )
    report.ratio(
        "overhead",
        statistics.median(one.around / one.seconds for one in rounds),
        "share of ours in scheduling, hops and checkpoints: at most 0.02",
    )
    report.ratio(
        "idle",
        statistics.median(one.idle / one.seconds for one in rounds),
        "share of ours in which a worker had nothing to do: at most 0.01",
    )
    units = {trial: statistics.median(one.units[trial] for one in rounds) for trial in ours.units}
    report.ratio("simulated_64", _speedup(units, 64) / 64, "speed-up on 64 simulated workers / 64, these units", 0.95)
    report.note(f"A training unit of ours takes {min(units.values()):.2f} to {max(units.values()):.2f} s.")
    whole = statistics.median(one.whole for one in rounds)
    report.note(f"Ours with the start of its workers and the loading: {whole:.1f} s.")
    if len(found) > 1:
        turns = ", ".join(f"{turn['bare loops, two processes'].seconds / turn[name].seconds:.3f}" for turn in found)
        idle = ", ".join(f"{one.idle / one.seconds:.3f}" for one in rounds)
        report.note(f"By round: vs_two_processes {turns}; idle {idle}.")
    report.note(
        "Sent: states that hopped; gradients or weights that each task gave. Without hops and checkpoints in the store."
    )
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
