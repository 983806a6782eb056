from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from places import EXAMPLES, ROOT
from standalone import SPARK_HOME, StandaloneCluster, spark_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AIRFLOW = ROOT / ".venv-airflow" / "bin" / "airflow"
_SECONDS = 900

# A network that trains for some seconds, so that a fault finds it at work.
SEARCH = """
import time
import torch
from cerebro_spark import ModelTrainer

feature_columns = ["a", "b", "c"]
label_columns = ["label"]
metric = "accuracy"
num_epochs = 3
search_space = {"lr": [0.1, 0.01], "hidden": [4, 8]}

class Slow(torch.nn.Sequential):
    def forward(self, rows):
        if self.training:
            time.sleep(0.3)
        return super().forward(rows)

def trainer_fn(params):
    net = Slow(torch.nn.Linear(3, params["hidden"]), torch.nn.ReLU(), torch.nn.Linear(params["hidden"], 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])
"""


@dataclass(frozen=True)
class Models:
    """Number of registered versions, number of units, and the last tensors of each configuration."""

    versions: int
    units: int
    weights: dict[str, dict[str, bytes]]


@dataclass
class Airflow:
    """Airflow of one test: its home, the example's DAG, and the data of the example's variables."""

    folder: Path
    cluster: StandaloneCluster
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        draw = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
        columns = {name: draw[:, place] for place, name in enumerate("abc")}
        label = (draw.sum(axis=1) > 0).astype(np.int64)
        (self.folder / "dags").mkdir(parents=True)
        pq.write_table(pa.table({**columns, "label": label}), self.folder / "adult.parquet")
        examples = self.folder / "examples"
        (examples / "searches").mkdir(parents=True)
        (examples / "searches" / "adult.py").write_text(SEARCH)
        (examples / "airflow").symlink_to(EXAMPLES / "airflow")
        # `airflow dags test` gives each try a DAG run of its own, so the search is named by the day instead.
        dag = (EXAMPLES / "airflow" / "adult_search.py").read_text()
        assert dag.count('task_id="search",') == 1
        dag = dag.replace('task_id="search",', 'task_id="search", run_id="adult-{{ ds }}",')
        (self.folder / "dags" / "adult_search.py").write_text(dag)
        self.environment = spark_environment(self.folder, Path(sys.executable), SPARK_MASTER=self.cluster.url) | {
            "PATH": f"{SPARK_HOME / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "AIRFLOW_HOME": str(self.folder / "home"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
            "CEREBRO_PYTHON": sys.executable,
            "CEREBRO_EXAMPLES": str(examples),
            "CEREBRO_DATA": str(self.folder),
            "MLFLOW_TRACKING_URI": f"sqlite:///{self.folder / 'mlflow.db'}",
        }
        with (self.folder / "conf" / "spark-defaults.conf").open("a") as defaults:
            defaults.write(f"spark.executorEnv.PYTHONPATH {ROOT}\n")
        self._run("db", "migrate")

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            [str(AIRFLOW), *words], env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    def add_example(self, dag: str, **variables: str) -> None:
        """Add an example's DAG as it is, with its variables."""
        shutil.copy(EXAMPLES / "airflow" / f"{dag}.py", self.folder / "dags")
        self.environment |= variables

    def start(self, dag: str = "adult_search") -> subprocess.Popen[str]:
        """Start a run of a DAG in a process that takes the place of Airflow's worker; always for the same day."""
        log = (self.folder / f"try-{len(self.processes)}.log").open("w")
        command = [str(AIRFLOW), "dags", "test", dag, "2026-11-01"]
        process = subprocess.Popen(
            command, env=self.environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, text=True
        )
        log.close()
        self.processes.append(process)
        return process

    def log(self) -> str:
        """Read what all tries printed."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("try-*.log")))

    def finish(self, process: subprocess.Popen[str]) -> None:
        """Wait for a run that has to succeed."""
        code = process.wait(_SECONDS)
        assert code == 0, self.log()[-8000:]

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Wait for an event of the run that was started last."""
        deadline = time.monotonic() + _SECONDS
        while not happened():
            assert self.processes[-1].poll() is None, self.log()[-8000:]
            assert time.monotonic() < deadline, self.log()[-8000:]
            time.sleep(0.1)

    def units(self) -> int:
        """Count the epochs of configurations whose checkpoints the store has."""
        folders = (self.folder / "store" / "runs").glob("*/checkpoints/*")
        counts = [[int(path.name.partition("-")[0]) for path in folder.glob("[0-9]*.json")] for folder in folders]
        return sum(max(numbers, default=0) for numbers in counts)

    def drivers(self) -> list[psutil.Process]:
        """Find the processes of the search, which are not Airflow's."""
        found = []
        for process in psutil.process_iter():
            try:
                command = process.cmdline()
                if "cerebro_spark" in command and str(self.folder) in " ".join(command):
                    found.append(process)
            except psutil.Error:
                continue
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]

    def models(self) -> Models:
        """Read what the runs have left."""
        import mlflow
        from safetensors.numpy import load_file

        client = mlflow.MlflowClient(self.environment["MLFLOW_TRACKING_URI"])
        versions = client.search_model_versions("name = 'adult'")
        weights = {}
        for folder in (self.folder / "store" / "runs").glob("*/checkpoints/*"):
            last = max(folder.glob("*.safetensors"))
            weights[folder.name] = {name: tensor.tobytes() for name, tensor in load_file(last).items()}
        return Models(len(versions), self.units(), weights)

    def close(self) -> None:
        """End the processes that are left."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for driver in self.drivers():
            for child in driver.children(recursive=True):
                os.kill(child.pid, signal.SIGKILL)
            driver.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers with a core each."""
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), Path(sys.executable)) as running:
        yield running


@pytest.fixture(scope="module")
def start_airflow(
    cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Airflow]]:
    """Return a function that makes an Airflow with a home, a store and an MLflow of its own."""
    made: list[Airflow] = []

    def start() -> Airflow:
        made.append(Airflow(tmp_path_factory.mktemp("airflow"), cluster))
        return made[-1]

    yield start
    for airflow in made:
        airflow.close()


@pytest.fixture(scope="module")
def undisturbed(start_airflow: Callable[[], Airflow]) -> Models:
    """Return the models of a run in which nothing happens."""
    airflow = start_airflow()
    airflow.finish(airflow.start())
    return airflow.models()
