"""A search with both cores busy, with and without a server: slowdown, acknowledgements, events and stops."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from sklearn.datasets import load_digits

from benchmarks.steering._server import server_seconds
from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from cerebro_spark.callbacks import Callback
from cerebro_spark.steering import Client

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from pyspark.sql import SparkSession

    from cerebro_spark.callbacks import EpochFinished
    from udfs.shards import PreparedData

__all__ = ["Training", "measure_training"]


@dataclass
class Training:
    """Measurements of searches.

    Parameters
    ----------
    alone_s, served_s : list of float
        Seconds of the searches without and with a server, in turn.
    server_share : list of float
        Time of the server's process on a core per second of a search.
    acknowledged_s : list of float
        Seconds until the server acknowledged each command.
    event_s : list of float
        Seconds from the end of each epoch to its event at a viewer.
    late_units : int
        Stopped configurations whose last unit ended later than a unit and a second after the acknowledgement.
    stops : int
        Configurations that were stopped.
    """

    alone_s: list[float] = field(default_factory=list)
    served_s: list[float] = field(default_factory=list)
    server_share: list[float] = field(default_factory=list)
    acknowledged_s: list[float] = field(default_factory=list)
    event_s: list[float] = field(default_factory=list)
    late_units: int = 0
    stops: int = 0


class _Clock(Callback):
    """Times at which epochs ended."""

    def __init__(self) -> None:
        self.ends: dict[tuple[str, int], float] = {}

    def epoch_finished(self, event: EpochFinished) -> None:
        """Record the time."""
        for trial_id in event.metrics:
            self.ends[trial_id, event.epoch + 1] = time.time()


def trainer(params: dict[str, Any]) -> ModelTrainer:
    """Return a network that takes a visit of some tenths of a second."""
    net = torch.nn.Sequential(
        torch.nn.Linear(64, params["width"]),
        torch.nn.ReLU(),
        torch.nn.Linear(params["width"], params["width"]),
        torch.nn.ReLU(),
        torch.nn.Linear(params["width"], 10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=32)


def _search(spark: SparkSession, store: Store, epochs: int, callbacks: list[Callback]) -> GridSearch:
    return GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=store,
        trainer_fn=trainer,
        feature_columns=["pixels"],
        label_columns=["label"],
        metric="loss",
        progress=False,
        seed=5,
        schedule="fixed",
        search_space={"lr": [1e-2, 1e-3], "width": [512, 640]},
        num_epochs=epochs,
        callbacks=callbacks,
    )


def _prepared(spark: SparkSession, store: Store) -> PreparedData:
    inputs, labels = load_digits(return_X_y=True)
    table = pd.DataFrame({"pixels": (inputs / 16).tolist(), "label": labels.astype("int64")})
    return _search(spark, store, 1, []).prepare(spark.createDataFrame(table))


def _follow(url: str, run: str, arrivals: dict[tuple[str, int], float]) -> None:
    for event in Client(url).follow(run):
        now = time.time()
        if event["stream"] == "orders":
            for result in event["document"]["results"]:
                if result["result"] == "epoch":
                    arrivals.setdefault((result["trial"], result["epoch"]), now)
        if event["stream"] == "experiment" and event["document"]["state"] == "ended":
            return


def measure_training(
    spark: SparkSession, store: Store, url: str, server: BaseProcess, epochs: int, repeats: int
) -> Training:
    """Run searches without and with the server in turn, and a last one that is steered.

    Parameters
    ----------
    spark : SparkSession
        Session with two cores.
    store : Store
        Store of the runs.
    url : str
        Address of the server.
    server : BaseProcess
        Process of the server.
    epochs : int
        Epochs of each of the four configurations.
    repeats : int
        Number of pairs of searches.
    """
    measured = Training()
    prepared = _prepared(spark, store)
    _search(spark, store, 1, []).fit(prepared)  # starts the workers' Python
    for number in range(repeats):
        for name in ("alone", "served"):
            clock, arrivals = _Clock(), dict[tuple[str, int], float]()
            search = _search(spark, store, epochs, [clock])
            before, began = server_seconds(server), time.perf_counter()
            if name == "alone":
                measured.alone_s.append(search.fit(prepared, run_id=f"alone-{number}").outcome.seconds)
                continue
            run = f"served-{number}"
            experiment = search.start(prepared, run_id=run, server=url)
            _until_registered(url, run)
            thread = threading.Thread(target=_follow, args=(url, run, arrivals), daemon=True)
            thread.start()
            measured.served_s.append(experiment.wait().outcome.seconds)
            measured.server_share.append((server_seconds(server) - before) / (time.perf_counter() - began))
            thread.join(30)
            measured.event_s += [arrived - clock.ends[key] for key, arrived in arrivals.items() if key in clock.ends]
    _steer(spark, store, prepared, url, measured)
    return measured


def _until_registered(url: str, run: str) -> None:
    client = Client(url)
    while not any(each["run"] == run and each["configurations"] for each in client.experiments()):
        time.sleep(0.05)


def _steer(spark: SparkSession, store: Store, prepared: PreparedData, url: str, measured: Training) -> None:
    client = Client(url)
    experiment = _search(spark, store, 1000, []).start(prepared, run_id="steered", server=url)
    _until_registered(url, "steered")
    for number in range(100):
        trial = f"c{number // 2 % 4:03d}"
        began = time.perf_counter()
        sent = client.resume("steered", trial) if number % 2 else client.pause("steered", trial)
        measured.acknowledged_s.append(time.perf_counter() - began)
        client.wait("steered", sent["id"], 60)
    stopped = {}
    for trial in ("c001", "c003"):
        time.sleep(2.0)
        client.stop("steered", trial)
        stopped[trial] = time.time()
    time.sleep(4.0)
    client.end("steered")
    selection = experiment.wait(120)
    # Units have times since the start of the run; the last one ended when the search did, to within a second.
    ends = {
        trial: max(event.ended for event in selection.outcome.events if event.trial_id == trial) for trial in stopped
    }
    offset = _offset(client, selection)
    longest = statistics.median(event.seconds for event in selection.outcome.events)
    measured.stops = len(stopped)
    measured.late_units = sum(
        ends[trial] + offset > acknowledged + longest + 1.0 for trial, acknowledged in stopped.items()
    )


def _offset(client: Client, selection: Any) -> float:
    """Return the time of day at which the run's clock was 0, from the end of the search at the server."""
    ended = client.experiment("steered")["ended"]
    return float(ended - max(event.ended for event in selection.outcome.events))
