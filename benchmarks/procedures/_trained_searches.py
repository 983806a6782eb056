"""The searches trained on Spark: models that hop, with and without rounds, against a configuration per task."""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from pyspark import cloudpickle
from pyspark.ml import Estimator
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as sf

from benchmarks.hopper._arms import BATCH, Arm, Work, optimizer_of
from benchmarks.procedures._rival import Study, perceptron
from cerebro_spark import (
    ASHA,
    GridSearch,
    Hyperband,
    ModelTrainer,
    NetworkEstimator,
    RandomSearch,
    SparkBackend,
    Store,
    prepare,
)
from cerebro_spark.callbacks import Callback
from optimizer.space import choice, log_uniform
from vista_spark import session

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from benchmarks.harness.report import Report
    from cerebro_spark import Selection
    from cerebro_spark.callbacks import UnitFinished

__all__ = ["train"]

# The workers have no such module: its classes go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

_WORKERS, _FEATURES = 2, 32
# The two sizes of a configuration, alike in number; a sleeping unit of the second takes twice as long.
_WIDTHS = (256, 512)
_MEAN = sum(_WIDTHS) / len(_WIDTHS)
# Validation computes outputs alone, without gradients.
_FORWARD = 1 / 3
_HELD_OUT = 0.25


class _Sleeper(torch.nn.Module):
    """A linear network that sleeps in proportion to its rows."""

    def __init__(self, seconds_a_row: float) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(_FEATURES, 2)
        self.seconds_a_row = seconds_a_row

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        # A model that is exported, for Spark's own evaluators, is of the layer alone.
        if not torch.compiler.is_compiling():
            time.sleep(len(rows) * self.seconds_a_row * (1.0 if self.training else _FORWARD))
        outputs: torch.Tensor = self.inner(rows)
        return outputs


@dataclass(frozen=True)
class _Networks:
    """Makes the network of a configuration.

    Parameters
    ----------
    seconds_a_row : float
        That a configuration of mean size sleeps; 0 for networks that compute.
    """

    seconds_a_row: float

    def __call__(self, params: dict[str, Any]) -> torch.nn.Module:
        if self.seconds_a_row:
            return _Sleeper(self.seconds_a_row * params["width"] / _MEAN)
        return perceptron(_FEATURES, params)

    def trainer(self, params: dict[str, Any]) -> ModelTrainer:
        """Return the trainer function for model hopping."""
        net = self(params)
        return ModelTrainer(
            model=net,
            optimizer=optimizer_of(net, params),
            loss=torch.nn.CrossEntropyLoss(),
            metrics=["accuracy"],
            batch_size=params.get("batch", BATCH),
        )


class _FirstUnit(Callback):
    """Callback that records the start of the first unit, after Python has started and torch is imported."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.began = 0.0

    def unit_finished(self, event: UnitFinished) -> None:
        if not self.over.is_set():
            self.began = time.perf_counter() - (event.ended - event.began)
            self.over.set()


class _MapByMap(NetworkEstimator):
    """The estimator as a validator uses one that has no ``fitMultiple`` of its own."""

    fitMultiple = Estimator.fitMultiple


@dataclass
class _Took:
    """Seconds and idle time of one search, by repeat."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"rolling": [], "together": [], "tasks": []})
    idle: list[float] = field(default_factory=list)
    idle_busy: list[float] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    overheads: list[float] = field(default_factory=list)
    epochs: int = 0

    def add(self, selection: Selection) -> None:
        """Add a rolling run's idle time and units."""
        idle, idle_busy = _idle(selection)
        self.idle.append(idle)
        self.idle_busy.append(idle_busy)
        events = selection.outcome.events
        self.units += [each.seconds for each in events if each.kind == "train"]
        self.overheads.append(
            sum(each.ended - each.began - each.seconds for each in events) / sum(each.seconds for each in events)
        )
        self.epochs = sum(len(trial.history) for trial in selection.trials)


@dataclass
class _Bench:
    """The arms over one table."""

    options: Namespace
    folder: str

    def __post_init__(self) -> None:
        rows = self.options.rows
        self.spark = session(f"local[{_WORKERS}]", conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
        self.store = Store.from_uri(self.folder)
        self.columns = [f"x{number}" for number in range(_FEATURES)]
        numbers = [sf.randn(seed).alias(name) for seed, name in enumerate(self.columns)]
        label = (sf.col("x0") * sf.col("x1") + sf.col("x2") > 0).cast("int").alias("label")
        self.table: DataFrame = self.spark.range(0, rows, 1, _WORKERS).select("id", *numbers)
        self.table = self.table.select(*self.columns, label).cache()
        self.prepared = prepare(
            self.table,
            self.store,
            feature_columns=self.columns,
            label_columns=["label"],
            num_shards=_WORKERS,
            test_fraction=_HELD_OUT,
        )
        sleeping = self.options.units == "sleep"
        share = rows * (1 - _HELD_OUT) / _WORKERS
        self.networks = _Networks(self.options.unit_seconds / share if sleeping else 0.0)
        space = {"lr": log_uniform(1e-4, 1e-2), "decay": choice([0.0, 1e-5]), "width": choice(list(_WIDTHS))}
        self.own: dict[str, Any] = {
            "backend": SparkBackend(self.spark, num_workers=_WORKERS, threads=1),
            "store": self.store,
            "trainer_fn": self.networks.trainer,
            "feature_columns": self.columns,
            "label_columns": ["label"],
            "progress": False,
            "seed": 1,
        }
        self.search: dict[str, Any] = {**self.own, "search_space": space, "metric": "accuracy"}
        self.study = Study(self.spark, Work(self.prepared, (), 0, 1), self.folder, _WORKERS, self.networks)

    def searches(self) -> dict[str, Callable[..., Any]]:
        """Make each search, by name."""
        drawn: dict[str, Any] = {"num_configurations": 8, "num_epochs": 3}
        return {
            "hyperband": lambda **more: Hyperband(max_epochs=9, **self.search, **more),
            "p": lambda **more: RandomSearch(**drawn, concurrency=_WORKERS, **self.search, **more),
            "2p": lambda **more: RandomSearch(**drawn, concurrency=2 * _WORKERS, **self.search, **more),
        }

    def asha(self, concurrency: int, **more: Any) -> ASHA:
        """Make an ASHA that goes on until it is ended."""
        return ASHA(max_epochs=9, max_configurations=10_000, concurrency=concurrency, **self.search, **more)


def train(report: Report, options: Namespace) -> None:
    """Train the searches that are asked for and add their tables and ratios."""
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(options, folder)
        try:
            if names := [name for name in options.only if name in bench.searches()]:
                _same_work(report, bench, names)
            if "asha" in options.only:
                _same_time(report, bench)
            if "fit_multiple" in options.only:
                _map_by_map(report, bench, "fit_multiple", "4 param maps, 3 epochs", _fit_all, 1.8)
            if "cross_validator" in options.only:
                what = "CrossValidator, 4 param maps, 3 epochs, 2 folds, predictions, refit"
                _map_by_map(report, bench, "cross_validator", what, _validate, None)
            if "batches" in options.only:
                _batches(report, bench)
        finally:
            bench.spark.stop()


def _same_work(report: Report, bench: _Bench, names: Sequence[str]) -> None:
    """Figures 3.12 and A.11: the time for the same configurations and epochs."""
    rows, rolls = [], []
    for name in names:
        make, took = bench.searches()[name], _Took()
        for _ in range(bench.options.repeats):
            known: dict[tuple[str, int], float] = {}
            for rounds in ("rolling", "together"):
                selection = make(rounds=rounds).fit(bench.prepared)
                took.seconds[rounds].append(_seconds(selection))
                if rounds == "rolling":
                    took.add(selection)
                    known = _accuracies(selection)
            bench.study.warm(_WARM)
            took.seconds["tasks"].append(bench.study.run(make().procedure(metric="accuracy", mode="max"), known)[0])
        middle = {way: statistics.median(each) for way, each in took.seconds.items()}
        against = middle["rolling"] / middle["tasks"], middle["rolling"] / middle["together"]
        rolls.append(against[1])
        rows.append(
            (
                name,
                *(f"{middle[way]:.1f}" for way in took.seconds),
                *(f"{ratio:.3f}" for ratio in against),
                *(f"{statistics.median(each):.1%}" for each in (took.idle, took.idle_busy, took.overheads)),
                f"units of {statistics.median(took.units):.2f} s, {took.epochs} epochs",
            )
        )
        key, meaning, target = _NAMED[name]
        report.ratio(f"trained_{key}", against[0], f"trained: {meaning}", target)
        report.ratio(f"trained_{name}_idle", statistics.median(took.idle_busy), "idle while two or more train on", 0.01)
    report.table(
        f"Trained on Spark, {_WORKERS} workers, seconds; medians of {bench.options.repeats}",
        ("search", "rolling", "together", "tasks", "/ tasks", "/ together", "idle", "idle, 2 or more", "overhead", ""),
        rows,
    )
    report.ratio(
        "trained_rolling_over_together", statistics.geometric_mean(rolls), "trained: geometric mean; at most", 0.97
    )


_WARM = {"lr": 1e-3, "decay": 0.0, "width": _WIDTHS[1]}
_NAMED = {
    "hyperband": ("hyperband_vs_task_parallel", "time, hopping / tasks; at most", 1.04),
    "p": ("hyperopt_p_vs_task_parallel", "time, hopping / tasks, p at a time", None),
    "2p": ("hyperopt_vs_task_parallel", "the same with 2p at a time; at most", 1.05),
}


def _same_time(report: Report, bench: _Bench) -> None:
    """Figures 3.13, A.12 and A.13: work that ASHA completes in the same time."""
    seconds = bench.options.asha_seconds
    counts: dict[str, list[tuple[int, int, float]]] = {"ours": [], "tasks": []}
    for _ in range(bench.options.repeats):
        first = _FirstUnit()
        experiment = bench.asha(2 * _WORKERS, callbacks=[first]).start(bench.prepared)
        while not first.over.wait(0.1):
            if experiment.done:
                break
        if (left := first.began + seconds - time.perf_counter()) > 0:
            time.sleep(left)
        experiment.end()
        selection = experiment.wait()
        known = _accuracies(selection)
        began = min(event.began for event in selection.outcome.events)
        over: dict[tuple[str, int], float] = {}
        for event in selection.outcome.events:
            over[event.trial_id, event.epoch] = max(event.ended, over.get((event.trial_id, event.epoch), 0.0))
        # Units that were in flight when time was over end later.
        done = {(name, epoch): known[name, epoch] for name, epoch in known if over[name, epoch - 1] <= began + seconds}
        counts["ours"].append(_reached(done))
        bench.study.warm(_WARM)
        rival = bench.asha(_WORKERS).procedure(metric="accuracy", mode="max")
        bench.study.run(rival, known, seconds)
        done = {(trial.trial_id, epoch): score for trial in rival.ledger for epoch, score in enumerate(trial.scores, 1)}
        counts["tasks"].append(_reached(done))
    rows = []
    for way, each in counts.items():
        configurations, last, best = (statistics.median(column) for column in zip(*each, strict=True))
        rows.append((way, f"{configurations:.0f}", f"{last:.0f}", f"{best:.3f}", ""))
    report.table(
        f"ASHA trained for {seconds:g} s, R = 9; medians of {bench.options.repeats}",
        ("", "configurations", "at the last rung", "best accuracy", ""),
        rows,
    )
    ours, tasks = (statistics.median(count for count, _, _ in counts[way]) for way in ("ours", "tasks"))
    report.ratio("trained_asha_configs_vs_task_parallel", ours / tasks, "trained: configurations in the same time", 1.0)


def _map_by_map(
    report: Report, bench: _Bench, key: str, what: str, fit: Callable[..., float], target: float | None
) -> None:
    """Fit the configurations of four maps in one run and in a run each, by what ``fit`` does with an estimator."""
    kinds = {"fitMultiple": NetworkEstimator, "map by map": _MapByMap}
    took: dict[str, list[float]] = {way: [] for way in kinds}
    # Warm up: the first run starts Python and prepares the rows of the folds.
    fit(bench, NetworkEstimator, 1)
    for _ in range(bench.options.repeats):
        for way, kind in kinds.items():
            took[way].append(fit(bench, kind, 3))
    middle = {way: statistics.median(each) for way, each in took.items()}
    report.table(
        f"{what}; seconds in all, medians of {bench.options.repeats}",
        (*kinds, ""),
        [(*(f"{each:.1f}" for each in middle.values()), "")],
    )
    report.ratio(
        key, middle["map by map"] / middle["fitMultiple"], f"{what}: map by map / fitMultiple; at least", target
    )


def _batches(report: Report, bench: _Bench) -> None:
    """Figure 3.9: seconds of an epoch and error by batch size, hopping against gradients averaged every step."""
    sizes, epochs, width = (32, 64, 128, 256, 512), 3, _WIDTHS[0]
    params = {"lr": 1e-3, "decay": 0.0, "width": width}
    # Networks that sleep would have nothing to average.
    search = bench.search | {
        "trainer_fn": _Networks(0.0).trainer,
        "search_space": {**{name: [value] for name, value in params.items()}, "batch": list(sizes)},
    }
    selection = GridSearch(num_epochs=epochs, **search).fit(bench.prepared)
    rows = []
    for trial in sorted(selection.trials, key=lambda trial: trial.params["batch"]):
        size = trial.params["batch"]
        units = [event.seconds for event in selection.outcome.events if event.trial_id == trial.trial_id]
        ours = sum(units) / epochs / _WORKERS
        work = Work(bench.prepared, ({**params, "hidden": [width, width // 2]},), epochs, 1, size)
        arm = Arm(work, "all-reduce", _WORKERS)
        found = bench.spark.range(0, _WORKERS, 1, _WORKERS).mapInArrow(arm, arm.schema, barrier=True).collect()
        theirs = max(row["seconds"] for row in found) / epochs
        errors = 1 - max(each["val_accuracy"] for each in trial.history), min(found[0]["errors"])
        rows.append(
            (str(size), f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}", *(f"{e:.3f}" for e in errors), "")
        )
        if size in {sizes[0], sizes[-1]}:
            report.ratio(f"all_reduce_at_batch_{size}", theirs / ours, "Figure 3.9: an epoch, all-reduce / hopping")
    report.table(
        f"Figure 3.9 on {_WORKERS} workers, computed: seconds of an epoch of a configuration; errors after {epochs}",
        ("batch", "hopping", "all-reduce", "all-reduce / hopping", "error, hopping", "error, all-reduce", ""),
        rows,
    )


def _grid(bench: _Bench, kind: type[NetworkEstimator], epochs: int) -> tuple[NetworkEstimator, list[Any]]:
    estimator = kind(hyperparameters=_WARM, num_epochs=epochs, **bench.own)
    rate, width = (estimator.getParam(name) for name in ("lr", "width"))
    grid = ParamGridBuilder().addGrid(rate, [1e-3, 3e-3]).addGrid(width, [*_WIDTHS]).build()
    return estimator, grid


def _fit_all(bench: _Bench, kind: type[NetworkEstimator], epochs: int) -> float:
    estimator, grid = _grid(bench, kind, epochs)
    began = time.perf_counter()
    for _ in estimator.fitMultiple(bench.table, grid):
        pass
    return time.perf_counter() - began


def _validate(bench: _Bench, kind: type[NetworkEstimator], epochs: int) -> float:
    estimator, grid = _grid(bench, kind, epochs)
    evaluator = BinaryClassificationEvaluator()
    validator = CrossValidator(
        estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, parallelism=1, seed=1
    )
    began = time.perf_counter()
    validator.fit(bench.table)
    return time.perf_counter() - began


def _seconds(selection: Selection) -> float:
    events = selection.outcome.events
    return max(each.ended for each in events) - min(each.began for each in events)


def _idle(selection: Selection) -> tuple[float, float]:
    """Share of the workers' time without a unit: of the whole run, and until one configuration trains on alone."""
    events = selection.outcome.events
    began, ended = min(each.began for each in events), max(each.ended for each in events)
    last: dict[str, float] = {}
    for each in events:
        last[each.trial_id] = max(each.ended, last.get(each.trial_id, 0.0))
    alone = sorted(last.values())[-2]
    shares = []
    for until in (ended, alone):
        given = sum(max(0.0, min(each.ended, until) - each.began) for each in events)
        shares.append(1 - given / (_WORKERS * (until - began)))
    return shares[0], shares[1]


def _accuracies(selection: Selection) -> dict[tuple[str, int], float]:
    return {
        (trial.trial_id, epoch): measured["val_accuracy"]
        for trial in selection.trials
        for epoch, measured in enumerate(trial.history, 1)
    }


def _reached(accuracies: dict[tuple[str, int], float]) -> tuple[int, int, float]:
    """Configurations that finished an epoch, those that finished the last rung, and the best accuracy."""
    names = {trial_id for trial_id, _ in accuracies}
    return len(names), sum(epoch == 9 for _, epoch in accuracies), max(accuracies.values(), default=float("nan"))
