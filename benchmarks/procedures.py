"""Model-selection procedures on models that hop against a configuration per task: the seeds' AutoML figures.

``python benchmarks/procedures.py`` first simulates the searches of Section 3.6.3 and Appendix A.4 (Figures 3.12, 3.13
and A.8 to A.14; Figure 3.9's bytes are in ``benchmarks/schedulers.py --drill-down``) with the scheduler of a live run,
which learns unit times, on 8 workers. Then it trains: Hyperband, random search with p and 2p configurations beside each
other and ASHA on Spark with two workers, one thread each, on perceptrons of two sizes; with ``rounds="rolling"``,
``"together"`` and by a study that trains one configuration per Spark task with all data local, as Optuna with MLflow on
Spark does. All have the same rows, networks and optimiser. The rival's procedure is told ours' accuracies, so that both
take the same decisions; ASHA's depend on who finishes first. Starting Python, importing torch and loading come before
the clock in all. ``--simulate-only`` leaves training out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _procedures_figures import figures
from _report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORKERS = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="of each simulated search")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=["hyperband", "p", "2p", "asha"], help="searches to train")
    parser.add_argument("--simulate-only", action="store_true")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report("Model-selection procedures: models that hop against one configuration per task")
    figures(report, options.seeds)
    if not options.simulate_only:
        _train(report, options)
    report.note(
        "Times are ours / theirs: smaller is better. Configurations of ASHA are ours / theirs: larger is better."
    )
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _train(report: Report, options: argparse.Namespace) -> None:
    from _hopper_arms import BATCH, Work, optimizer_of  # noqa: PLC0415 - imports torch and Spark
    from _procedures_rival import Study, perceptron  # noqa: PLC0415
    from pyspark.sql import functions as sf  # noqa: PLC0415

    from cerebro_spark import ASHA, Hyperband, ModelTrainer, RandomSearch, SparkBackend, Store, prepare  # noqa: PLC0415
    from optimizer.space import choice, log_uniform  # noqa: PLC0415
    from vista_spark import session  # noqa: PLC0415

    space = {
        "lr": log_uniform(1e-4, 1e-2),
        "decay": choice([0.0, 1e-5]),
        "width": choice([256, 512]),
    }
    features = 32

    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        import torch  # noqa: PLC0415 - on the workers

        net = perceptron(features, params)
        return ModelTrainer(
            model=net,
            optimizer=optimizer_of(net, params),
            loss=torch.nn.CrossEntropyLoss(),
            metrics=["accuracy"],
            batch_size=BATCH,
        )

    with tempfile.TemporaryDirectory() as folder:
        store = Store.from_uri(folder)
        spark = session(f"local[{_WORKERS}]", conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
        columns = [f"x{number}" for number in range(features)]
        numbers = [sf.randn(seed).alias(name) for seed, name in enumerate(columns)]
        table = spark.range(0, options.rows, 1, _WORKERS).select("id", *numbers)
        label = (sf.col("x0") * sf.col("x1") + sf.col("x2") > 0).cast("int").alias("label")
        prepared = prepare(
            table.select(*columns, label), store, feature_columns=columns, label_columns=["label"], num_shards=_WORKERS
        )
        common: dict[str, Any] = {
            "backend": SparkBackend(spark, num_workers=_WORKERS, threads=1),
            "store": store,
            "trainer_fn": trainer_fn,
            "search_space": space,
            "feature_columns": columns,
            "label_columns": ["label"],
            "metric": "accuracy",
            "progress": False,
            "seed": 1,
        }
        searches: dict[str, Any] = {
            "hyperband": lambda **more: Hyperband(max_epochs=9, **common, **more),
            "p": lambda **more: RandomSearch(
                num_configurations=8, num_epochs=3, concurrency=_WORKERS, **common, **more
            ),
            "2p": lambda **more: RandomSearch(
                num_configurations=8, num_epochs=3, concurrency=2 * _WORKERS, **common, **more
            ),
            "asha": lambda **more: ASHA(
                max_epochs=9, max_configurations=12, concurrency=2 * _WORKERS, **common, **more
            ),
        }
        study = Study(spark, Work(prepared, (), 0, 1), folder, _WORKERS)
        rows = []
        for name in options.only:
            took: dict[str, list[float]] = {"rolling": [], "together": [], "tasks": []}
            idle: list[float] = []
            units: list[float] = []
            for _ in range(options.repeats):
                known: dict[tuple[str, int], float] = {}
                for rounds in ("rolling", "together"):
                    selection = searches[name](rounds=rounds).fit(prepared)
                    events = selection.outcome.events
                    seconds = max(each.ended for each in events) - min(each.began for each in events)
                    took[rounds].append(seconds)
                    if rounds == "rolling":
                        given = sum(each.ended - each.began for each in events)
                        idle.append(1 - given / (_WORKERS * seconds))
                        units += [each.seconds for each in events if each.kind == "train"]
                        known = {
                            (trial.trial_id, epoch): measured["val_accuracy"]
                            for trial in selection.trials
                            for epoch, measured in enumerate(trial.history, 1)
                        }
                study.warm({"lr": 1e-3, "decay": 0.0, "width": 512})
                rival = searches[name]().procedure(metric="accuracy", mode="max")
                took["tasks"].append(study.run(rival, known)[0])
            middle = {way: statistics.median(each) for way, each in took.items()}
            rows.append(
                (
                    name,
                    *(f"{middle[way]:.1f}" for way in took),
                    f"{middle['rolling'] / middle['tasks']:.3f}",
                    f"{middle['rolling'] / middle['together']:.3f}",
                    f"{statistics.median(idle):.1%}",
                    f"units of {statistics.median(units):.2f} s, {len(known)} epochs",
                )
            )
            label_of = "hyperopt_" + name if name in {"p", "2p"} else name
            report.ratio(f"trained_{label_of}_vs_task_parallel", middle["rolling"] / middle["tasks"], "time, trained")
            report.ratio(
                f"trained_{label_of}_rolling_over_together", middle["rolling"] / middle["together"], "time, trained"
            )
        columns_of = ("search", "rolling s", "together s", "task-parallel s", "/ tasks", "/ together", "idle", "")
        report.table(f"Trained on Spark, {_WORKERS} workers; medians of {options.repeats}", columns_of, rows)
        spark.stop()


if __name__ == "__main__":
    main()
