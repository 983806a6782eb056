"""A plan for larger machines than a cluster has, and a cluster of one core."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from places import ROOT
from standalone import StandaloneCluster, spark_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAN = """
from optimizer.memory import ClusterSpec, LayerSize, ModelFootprint, TransferWorkload, plan_transfer
from vista_spark import session
from vista_spark.errors import NoExecutorError
work = TransferWorkload(1000, 10, (LayerSize("fc", 4000),), 10_000, ModelFootprint(1 << 20, 1 << 28))
plan = plan_transfer(work, ClusterSpec(1, 2, 4 << 30))
try:
    session("{master}", plan=plan, conf={{"spark.vista.executorTimeout": "20", "spark.executor.memory": "512m"}})
except NoExecutorError as error:
    print("said:", error)
"""
_COUNT = """
from udfs.driver import task_slots
from vista_spark import session
from vista_spark.sessions import envelope
spark = session("{master}", conf={{"spark.executor.memory": "512m"}})
print("slots:", task_slots(spark), envelope(spark).slots, envelope(spark).executors)
spark.stop()
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and one worker with one core."""
    with StandaloneCluster(tmp_path_factory.mktemp("small"), Path(sys.executable), workers=1) as running:
        yield running


def _run(code: str, small: StandaloneCluster, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code.format(master=small.url)],
        cwd=folder,
        env=spark_environment(folder, Path(sys.executable), PYTHONPATH=str(ROOT), **environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_an_executor_that_no_worker_has_the_cores_for(small: StandaloneCluster, tmp_path: Path) -> None:
    """Its master's page is at a port of its own, so that only the wait tells."""
    said = _run(_PLAN, small, tmp_path, SPARK_MASTER_WEBUI_PORT="1")
    assert "an executor must run a task within 20 s, got none" in said
    assert "Each executor takes spark.executor.cores=2, spark.executor.memory=512m" in said


def test_a_cluster_of_one_core_has_one_slot(small: StandaloneCluster, tmp_path: Path) -> None:
    assert "slots: 1 1 1" in _run(_COUNT, small, tmp_path)
