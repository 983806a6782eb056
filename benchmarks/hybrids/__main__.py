"""Fewer configurations than workers: epochs that all workers train together against hopping alone.

``python -m benchmarks.hybrids`` runs successive halving with as many perceptrons as workers on a local Spark, one
thread a worker: after the first rung one of them is left, and the other workers are idle or share its epochs. The
search runs in each way in turn: hopping, all-reduce, averaging of weights, and the choice by measurement. Compared are
the epochs in which one configuration is left, from the first unit of training to the end of the last one of each,
without validation; ratios are hopping / hybrid, and larger is better. Also the bytes that workers send to each other in
such an epoch, and the last validation loss: a hybrid trains another model. All workers share the cores of this machine,
so that there is no gain beyond their number. It ends within five minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.harness.report import Report, load_average
from cerebro_spark import ModelTrainer, SparkBackend, Store, SuccessiveHalving
from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cerebro_spark import Selection
    from cerebro_spark.tune import TrialResult

_INPUTS = 32
_MODES = ("off", "all_reduce", "averaging", "auto")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train in each way, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="workers, and configurations at the start")
    parser.add_argument("--rows", type=int, default=16_000, help="rows of the data, a quarter of them for validation")
    parser.add_argument("--width", type=int, default=1024, help="units of each of the two hidden layers")
    parser.add_argument("--batch", type=int, default=512, help="rows of a batch")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of the last configuration")
    parser.add_argument("--repeats", type=int, default=2, help="searches in each way; the median of all epochs counts")
    parser.add_argument("--picture", type=Path, help="file for the timelines of hopping and all-reduce")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report(f"Fewer configurations than workers, {options.workers} workers: hopping against hybrids")
    selections = _selections(options)
    hopping = _tail(selections["off"])
    table = []
    for mode, repeats in selections.items():
        seconds, sent, epochs = _tail(repeats)
        ratio = hopping[0] / seconds
        loss = _last(repeats[-1]).history[-1]["val_loss"]
        table.append([mode, f"{seconds:.2f}", f"{ratio:.2f}", f"{sent / 2**20:.1f}", str(epochs), f"{loss:.3f}"])
        if mode != "off":
            report.ratio(f"{mode}_time", ratio, "seconds of an epoch, hopping / hybrid")
            report.ratio(f"{mode}_bytes", sent / hopping[1], "bytes of an epoch, hybrid / hopping")
    columns = ["way", "s an epoch", "hopping / it", "MiB an epoch", "joint epochs", "last validation loss"]
    report.table("Epochs of the configuration that is left", columns, table)
    log = _last(selections["auto"][-1]).log.splitlines()
    for line in [line for line in log if "workers: " in line or line.startswith("  ")]:
        report.note(line)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    if options.picture is not None:
        _draw({mode: repeats[-1] for mode, repeats in selections.items()}, options.picture)
    report.show(as_json=options.json)


def _selections(options: argparse.Namespace) -> dict[str, list[Selection]]:
    """Run the search in each way, again and again."""
    conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    with tempfile.TemporaryDirectory() as folder:
        spark = session(f"local[{options.workers}]", conf=conf)
        file = str(Path(folder) / "rows.parquet")
        _write_rows(file, options.rows)
        selections: dict[str, list[Selection]] = {mode: [] for mode in _MODES}
        for mode in _MODES * options.repeats:
            search = SuccessiveHalving(
                backend=SparkBackend(spark, num_workers=options.workers, threads=1),
                store=Store.from_uri(str(Path(folder) / "store")),
                trainer_fn=_trainer_fn(options.width, options.batch),
                search_space={"lr": [1e-3 / (1 + number) for number in range(options.workers)]},
                num_configurations=options.workers,
                eta=options.workers,
                max_epochs=options.epochs,
                feature_columns=["x"],
                label_columns=["y"],
                hybrid=mode,
                averaging_from=1 if mode == "averaging" else None,
                progress=False,
            )
            prepared = search.prepare(spark.read.parquet(file))
            selections[mode].append(search.fit(prepared))
        spark.stop()
    return selections


def _write_rows(file: str, count: int) -> None:
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(count, _INPUTS)).astype(np.float32)
    labels = (inputs[:, :4].prod(1) + inputs[:, 4:8].sum(1) > 0).astype(np.int64)
    pq.write_table(pa.table({"x": pa.array(inputs.tolist(), pa.list_(pa.float32())), "y": labels}), file)


def _trainer_fn(width: int, batch: int) -> Any:
    def trainer_fn(params: Mapping[str, Any]) -> ModelTrainer:
        layers = (torch.nn.Linear(_INPUTS, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU())
        net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 2))
        optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=batch)

    return trainer_fn


def _last(selection: Selection) -> TrialResult:
    """Return the configuration that trained longest."""
    return max(selection.trials, key=lambda trial: len(trial.history))


def _tail(selections: Sequence[Selection]) -> tuple[float, float, int]:
    """Return the seconds and sent bytes of an epoch in which one configuration is left, and the joint ones of these."""
    seconds: list[float] = []
    sent, joint = 0.0, 0
    for selection in selections:
        last = _last(selection)
        first = max(len(trial.history) for trial in selection.trials if trial.trial_id != last.trial_id)
        units = [each for each in selection.outcome.events if each.kind == "train" and each.trial_id == last.trial_id]
        for epoch in range(first, len(last.history)):
            mine = [unit for unit in units if unit.epoch == epoch]
            seconds.append(max(unit.ended for unit in mine) - min(unit.began for unit in mine))
            sent += sum(unit.exchanged_bytes + unit.fetched_bytes for unit in mine)
            joint += any(unit.ranks > 1 for unit in mine)
    return statistics.median(seconds), sent / len(seconds), joint


def _draw(selections: Mapping[str, Selection], file: Path) -> None:
    """Draw what each worker trained when, by hopping and by all-reduce, on one scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    names = sorted({trial.trial_id for selection in selections.values() for trial in selection.trials})
    for axes, (mode, title) in zip(panels, (("off", "hopping"), ("all_reduce", "all-reduce")), strict=True):
        events = selections[mode].outcome.events
        start = min(event.began for event in events)
        workers = sorted({event.worker for event in events})
        for event in events:
            axes.barh(
                workers.index(event.worker),
                event.ended - event.began,
                left=event.began - start,
                color=f"C{names.index(event.trial_id)}",
                alpha=1.0 if event.kind == "train" else 0.35,
                edgecolor="white",
                linewidth=0.4,
            )
        axes.set_yticks(range(len(workers)), workers)
        axes.set_title(f"{title}: one of {len(names)} configurations is left after the first rung", fontsize=10)
    panels[-1].set_xlabel("seconds; pale bars are validation, one colour per configuration")
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
