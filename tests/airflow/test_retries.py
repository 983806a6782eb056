"""Tries of a search as a task of Airflow, with Airflow itself and a Spark cluster, whose processes are killed."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT
from sessions import CONNECT

pytest.importorskip("torch")
pytest.importorskip("mlflow")

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(not (ROOT / ".venv-airflow").exists(), reason="make airflow-test builds .venv-airflow"),
    pytest.mark.skipif(CONNECT, reason="starts its own servers"),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
    pytest.mark.timeout(1800),
]

# Four configurations train two epochs over two shards.
_UNITS = 16


def test_an_undisturbed_run_registers_one_model(undisturbed: Any) -> None:
    assert (undisturbed.versions, undisturbed.units) == (1, _UNITS)
    assert sorted(undisturbed.weights) == ["c000", "c001", "c002", "c003"]


def test_a_retry_fences_off_a_driver_that_is_alive(start_airflow: Callable[[], Any], undisturbed: Any) -> None:
    airflow = start_airflow()
    run = airflow.start()
    airflow.wait_until(lambda: airflow.units() >= 2)
    run.kill()
    run.wait()
    (first,) = airflow.drivers()
    assert airflow.units() < _UNITS, "the search was over before it was disturbed"
    airflow.finish(airflow.start())
    assert not first.is_running() or first.status() == "zombie", "the first driver still trains"
    assert airflow.models() == undisturbed


def test_a_spark_task_is_killed(start_airflow: Callable[[], Any], undisturbed: Any) -> None:
    airflow = start_airflow()
    run = airflow.start()
    airflow.wait_until(lambda: airflow.units() >= 2)
    os.kill(airflow.cluster.python_workers()[0], signal.SIGKILL)
    assert airflow.units() < _UNITS, "the search was over before it was disturbed"
    airflow.finish(run)
    assert airflow.models() == undisturbed


def test_airflows_worker_and_its_driver_are_killed(start_airflow: Callable[[], Any], undisturbed: Any) -> None:
    airflow = start_airflow()
    run = airflow.start()
    airflow.wait_until(lambda: airflow.units() >= 2)
    run.kill()
    run.wait()
    for driver in airflow.drivers():
        for process in driver.children(recursive=True):
            process.kill()
        driver.kill()
    assert airflow.units() < _UNITS, "the search was over before it was disturbed"
    airflow.finish(airflow.start())
    assert airflow.models() == undisturbed
