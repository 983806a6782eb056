"""The driver of a campaign that a test disturbs: ``python adapting.py MASTER STORE NAME fit|resume [SETTINGS]``."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cerebro_spark import Adaptation, ModelTrainer, SparkBackend, Store
from optimizer.adaptation import Costs
from udfs.hopper import Checkpoints

RATES = [0.1, 0.03, 0.01, 0.003, 0.001, 0.0003]
WIDE, INNER, CLASSES, EPOCHS, BATCH = 3, 32, 2, 3, 16

# The file that the campaign at hand has, the last one; "" if none.
GATES = [""]

# The step in which a configuration stops until its process is killed. A visit has about eight, and each process one
# visit an epoch: it is in the middle of a visit of the second epoch.
HUNG = 12


class Hanging(torch.nn.CrossEntropyLoss):
    """A loss that leaves its process's id in a file and stops, once, in the middle of a unit.

    A model's own code is traced, and does not run in each step.
    """

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.gate, self.steps = gate, 0

    def forward(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            self.steps += 1
            if self.gate and self.steps == HUNG and not Path(self.gate).exists():
                part = Path(f"{self.gate}.part")
                part.write_text(str(os.getpid()))
                part.rename(self.gate)
                time.sleep(3600)
        return super().forward(outputs, labels)


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trunk = torch.nn.Sequential(torch.nn.Linear(WIDE, INNER), torch.nn.Tanh()).requires_grad_(False)
    net = torch.nn.Sequential(
        trunk, torch.nn.BatchNorm1d(INNER), torch.nn.Dropout(0.2), torch.nn.Linear(INNER, CLASSES)
    )
    optimizer = torch.optim.Adam([each for each in net.parameters() if each.requires_grad], lr=params["lr"])
    loss = Hanging(GATES[-1] if params["lr"] == RATES[-1] else "")
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=loss, metrics=["accuracy"], batch_size=BATCH, epochs=EPOCHS
    )


def campaign(spark: SparkSession, store: Store, name: str, **settings: Any) -> Adaptation:
    usual = {
        "backend": SparkBackend(spark, num_workers=2, threads=1),
        "store": store,
        "trainer_fn": trainer_fn,
        "search_space": {"lr": RATES},
        "id_column": "id",
        "feature_columns": ["a", "b", "c"],
        "label_columns": ["label"],
        "metric": "accuracy",
        "name": name,
        "max_records": 500,
        "schedule": "fixed",
        # Reading costs next to nothing beside computing: the frozen layer is stored.
        "costs": Costs(flops_per_second=1e6, bytes_per_second=1e9),
        "progress": False,
        "seed": 3,
    }
    return Adaptation(**usual | settings)


def report(found: Any) -> dict[str, Any]:
    kept = Checkpoints(found.prepared.store, found.run_id)
    records = {trial.trial_id: kept.last(trial.trial_id) for trial in found.trials}
    together: dict[str, list[list[int]]] = {trial_id: [[] for _ in range(EPOCHS)] for trial_id in records}
    for event in found.outcome.events:
        if event.kind == "train":
            together[event.trial_id][event.epoch].append(event.members)
    return {
        "digests": {trial_id: record and record.digest for trial_id, record in records.items()},
        "statuses": {trial.trial_id: trial.status for trial in found.trials},
        "histories": found.history(),
        "tracebacks": [trial.traceback for trial in found.trials if trial.traceback],
        "redone": found.outcome.redone,
        "losses": [str(loss) for loss in found.outcome.losses],
        "members": together,
        "victim": next(trial.trial_id for trial in found.trials if trial.params["lr"] == RATES[-1]),
        "trunk_rows": found.materialised.trunk_rows,
    }


def main() -> None:
    master, uri, name, mode = sys.argv[1:5]
    settings: dict[str, Any] = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    gate = settings.pop("gate", "")
    logging.basicConfig(stream=sys.stdout, format="%(relativeCreated)d ms: %(message)s")
    for package in ("cerebro_spark", "udfs"):
        logging.getLogger(package).setLevel(logging.INFO)
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    spark = SparkSession.builder.master(master).getOrCreate()
    store = Store.from_uri(uri)
    batch = spark.range(320).selectExpr(
        "id", "sin(id) a", "cos(id * 2) b", "sin(id * 3) c", "int(sin(id) + cos(id * 2) > 0) label"
    )
    found = {}
    for key, called, file in (("undisturbed", "undisturbed", ""), ("disturbed", name, gate)):
        GATES.append(file)
        made = campaign(spark, store, called, **settings)
        found[key] = report(made.fit(batch) if mode == "fit" else made.resume())
    print("FOUND", json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
