"""Faults of a cluster: the death of an executor does not change the result, a full disk is reported."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from places import ROOT
from standalone import spark_environment

from vista_spark.sessions import write_packages

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from standalone import StandaloneCluster
    from transfers import Transfer

_WAIT_SECONDS = 180


@pytest.mark.slow
def test_a_killed_executor_changes_nothing(
    cluster: StandaloneCluster, transfer: Transfer, expected: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """Killed while its Python worker runs: Spark starts another one, and the numbers are those of an untouched run."""
    archive = write_packages(tmp_path / "dist")
    script = tmp_path / "dist" / "vista.py"
    script.write_text((ROOT / "vista_spark" / "__main__.py").read_text())
    done: list[subprocess.CompletedProcess[str]] = []
    # Every executor of the two nodes must have run a task of inference, or the death of one would have no effect.
    command = threading.Thread(
        target=lambda: done.append(
            cluster.submit(script, *transfer.command(tmp_path / "out"), py_files=[archive])  # as without the fault
        )
    )
    before = {executor.application for executor in cluster.executors()}
    command.start()
    killed = _kill_one_at_work(cluster, before, command)
    command.join()
    assert done[0].returncode == 0, done[0].stdout + done[0].stderr
    assert killed is not None, "the transfer was over before an executor was at work"
    transfer.assert_same(tmp_path / "out", expected, spark)


def _kill_one_at_work(cluster: StandaloneCluster, before: set[str], command: threading.Thread) -> int | None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while command.is_alive() and time.monotonic() < deadline:
        for executor in cluster.executors():
            # A worker that has opened torch is in the midst of inference.
            if executor.application not in before and any(
                _resident(pid) > 250_000_000 for pid in cluster.python_workers(executor.application)
            ):
                cluster.kill(executor.pid)
                return executor.pid
        time.sleep(0.1)
    return None


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0


_SPILLS = """
import sys
from pyspark.ml.classification import LogisticRegression
from vista_spark import FeatureTransfer, session
from vista_spark.files import read_images, read_table
from vista_spark.errors import DiskFullError

inputs, disk = sys.argv[1:]
# Hardly any storage: what is cached goes to disk.
conf = {"spark.local.dir": disk, "spark.driver.memory": "1g", "spark.memory.fraction": "0.1"}
spark = session("local[2]", conf=conf)
table = read_table(spark, f"{inputs}/table.csv").selectExpr("key", "left", "top", "double(kind = 'china') label")
images = read_images(spark, f"{inputs}/images", "key", "image", table)
job = FeatureTransfer(
    model="squeezenet1_1", layers=["features.4", "fire9"], downstream=LogisticRegression(maxIter=2), plan="staged",
    errors="drop", test_fraction=0.4, experiment=None, progress=False, batch_size=2,
)
many = table.selectExpr("key", "left", "top", "label", "explode(sequence(0, 23)) copy")
many_images = images.selectExpr("image", "key", "explode(sequence(0, 23)) copy")
ids = "key * 24 + copy as id"
try:
    job.run(
        many.selectExpr(ids, "left", "top", "label"), many_images.selectExpr(ids, "image"),
        feature_columns=["left", "top"],
    )
except DiskFullError as error:
    print("said:", error)
# What was cached is gone with the run: the next one computes its own.
assert not spark.sparkContext._jsc.getPersistentRDDs()
found = job.run(table, images, on="key", feature_columns=["left", "top"])
print("then:", len(found.layers), "layers")
"""


@pytest.mark.slow
def test_a_disk_that_fills_is_said_and_nothing_of_it_stays(
    transfer: Transfer, small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    disk = small_disk("24m")
    done = subprocess.run(
        [sys.executable, "-c", _SPILLS, str(transfer.folder), str(disk)],
        cwd=tmp_path,
        env=spark_environment(tmp_path / "spark", Path(sys.executable)) | {"SPARK_LOCAL_DIRS": str(disk)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "said: the disk of Spark's scratch folder is full" in done.stdout
    assert "spark.local.dir" in done.stdout
    assert "then: 2 layers" in done.stdout
