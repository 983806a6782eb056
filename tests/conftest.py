from __future__ import annotations

import os
import random
import subprocess
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

import hypothesis
import numpy as np
import pytest
from java_options import java_options
from sessions import CONNECT, new_session
from unit_tests import is_unit

from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

# The duration of an example depends on the load of the machine, so there is no deadline. A change that is right must
# not fail by chance, so every run has the same examples; `make test-all` draws new ones.
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")

# Two processes of tests have two cores between them: a thread that waits for another's is not to spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if "PYTEST_XDIST_WORKER" in os.environ:
    # Small networks and small tables are computed faster on one thread.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--unit``, which ``make test-unit`` and ``.ci/run`` use."""
    text = "select the files whose tests need neither Spark nor a framework, or all others"
    parser.addoption("--unit", choices=["only", "without"], help=text)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that ``--unit`` does not select, before they are imported."""
    selection = config.getoption("--unit")
    if selection is None or not collection_path.match("test_*.py"):
        return None
    return None if is_unit(collection_path) == (selection == "only") else True


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """Start each test at one state of the global generators: an estimator without a seed of its own draws from them."""
    random.seed(0)
    np.random.seed(0)  # the generator that scikit-learn's estimators fall back to


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one session for all tests: starting it takes longer than most of them."""
    session = new_session(tmp_path_factory.mktemp("spark"))
    with patch.object(session, "stop", _refuse_to_stop):
        yield session
    session.stop()


def _refuse_to_stop() -> None:
    """Fail the test that would stop the session of all tests, not the tests that come after it."""
    pytest.fail("this test stops the shared Spark session: run what stops it in a new process")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Make a store of the test's own."""
    return Store.from_uri(str(tmp_path / "store"))


@pytest.fixture
def tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give MLflow with a tracking server of the test's own; what the test made current there ends with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow's own type hints
        mlflow = pytest.importorskip("mlflow")
    # No public call takes the active experiment back.
    monkeypatch.setattr("mlflow.tracking.fluent._active_experiment_id", None)
    with patch.dict(os.environ):
        os.environ.pop("MLFLOW_EXPERIMENT_ID", None)
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
        yield mlflow
        mlflow.set_tracking_uri(before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a disk of a size such as ``"2m"``; skip the test where this user may not."""
    disks: list[Path] = []

    def mount(size: str) -> Path:
        folder = tmp_path / f"disk{len(disks)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a small disk is a tmpfs, which this user may not mount")
        disks.append(folder)
        return folder

    yield mount
    for folder in disks:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def no_job(spark: SparkSession) -> Callable[[], AbstractContextManager[None]]:
    """Give a block in which Spark must not run any job."""
    if CONNECT:
        pytest.skip("Spark Connect does not tell its client which jobs ran")

    @contextmanager
    def watch() -> Iterator[None]:
        before = _sentinel(spark)
        yield
        after = _sentinel(spark)
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup()
        assert not [job for job in jobs if before < job < after], "a Spark job ran"

    return watch


def _sentinel(spark: SparkSession) -> int:
    """Run a job and return its number: Spark hears of jobs late, but in their order, and forgets the oldest."""
    context, group = spark.sparkContext, str(uuid4())
    context.setJobGroup(group, "sentinel")
    spark.range(1).collect()
    context.setLocalProperty("spark.jobGroup.id", None)
    while not (jobs := context.statusTracker().getJobIdsForGroup(group)):
        time.sleep(0.01)
    return max(jobs)
