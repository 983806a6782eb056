"""Memory of the executors beside their plan: the table of the JVM plugin, and what happens without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT
from pyspark.sql import SparkSession
from sessions import CONNECT

from udfs.driver import plugin_jar
from vista_spark import memory
from vista_spark.errors import PluginNotLoadedError
from vista_spark.sessions import measured_memory
from vista_spark.transfer import _tracking

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20
PLAN = {"cores": 2, "heap": 700 * MIB, "overhead": 100 * MIB, "off_heap": 0, "python": 300 * MIB, "dl": 500 * MIB}

# A task holds 200 MiB until the driver has seen it, for a minute at most.
_QUERY = """
import json, sys, threading, time
from pathlib import Path
import numpy as np
from vista_spark import memory, session

SEEN = Path(sys.argv[2])

def held(batches):
    for batch in batches:
        block = np.ones(25 * 2**20)
        end = time.monotonic() + 60
        while not SEEN.exists() and time.monotonic() < end:
            time.sleep(0.1)
        yield batch

def measured():
    return [row.asDict() for row in memory(spark).drop("sampled_at").collect()]

if __name__ == "__main__":
    spark = session("local[2]", conf=json.loads(sys.argv[1]))
    job = threading.Thread(target=lambda: spark.range(0, 1, 1, 1).mapInArrow(held, "id long").collect())
    job.start()
    rows = measured()
    while job.is_alive() and not SEEN.exists():
        time.sleep(0.2)
        rows = measured()
        if any(row["region"].startswith("worker") and row["peak_bytes"] >= 200 * 2**20 for row in rows):
            SEEN.touch()
    job.join()
    after = measured()
    while any(row["region"] == "task" and row["measured_bytes"] for row in after):
        time.sleep(0.2)
        after = measured()
    print("ROWS", json.dumps([rows, after]))
"""


def _run(folder: Path, **conf: str) -> str:
    script = folder / "query.py"
    script.write_text(_QUERY)
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "512m", **conf}
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(settings), str(folder / "seen")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=240,
    )
    return done.stdout + done.stderr


def test_without_the_plugin_the_error_says_how_to_load_it(spark: SparkSession) -> None:
    with pytest.raises(PluginNotLoadedError, match=r"got one without the JVM plugin.*--conf spark\.plugins=org\.cer"):
        memory(spark)
    assert measured_memory(spark) is None


@pytest.mark.skipif(plugin_jar() is None, reason="make jvm builds the jar")
@pytest.mark.skipif(CONNECT, reason="starts its own Spark")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_measured_and_planned_bytes_by_region(tmp_path: Path) -> None:
    text = ",".join(f"{name}={value}" for name, value in PLAN.items())
    printed = _run(tmp_path, **{"spark.cerebro.memory.plan": text})
    assert "ROWS" in printed, printed[-3000:]
    rows, after = json.loads(printed.partition("ROWS ")[2].splitlines()[0])
    during = {row["region"]: row for row in rows}
    assert {row["executor"] for row in rows} == {"driver"}
    assert during["jvm"]["predicted_bytes"] == 800 * MIB
    assert during["python"]["predicted_bytes"] == 800 * MIB
    assert during["task"]["predicted_bytes"] == 400 * MIB
    assert during["total"]["predicted_bytes"] == 1600 * MIB
    assert during["user"]["predicted_bytes"] is None  # the setting leaves it out
    (worker,) = [row for region, row in during.items() if region.startswith("worker ")]
    assert "task 0" in worker["measure"] and worker["predicted_bytes"] == 400 * MIB
    assert 200 * MIB < worker["peak_bytes"] < 600 * MIB
    ended = {row["region"]: row for row in after}
    assert ended["task"]["measured_bytes"] is None, "the task has ended"
    assert ended["task"]["peak_bytes"] >= 200 * MIB, "its peak stays"
    assert ended["total"]["peak_bytes"] >= ended["jvm"]["measured_bytes"] + 200 * MIB


@pytest.mark.skipif(plugin_jar() is None, reason="make jvm builds the jar")
@pytest.mark.skipif(CONNECT, reason="starts its own Spark")
@pytest.mark.slow
def test_metrics_that_are_off_are_reported(tmp_path: Path) -> None:
    printed = _run(tmp_path, **{"spark.cerebro.memory.metrics": "false"})
    assert "PluginNotLoadedError" in printed and "spark.cerebro.memory.metrics=false" in printed, printed[-3000:]


def test_a_transfer_logs_measured_and_planned_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    pd = pytest.importorskip("pandas")
    mlflow = pytest.importorskip("mlflow")
    rows = pd.DataFrame(
        {
            "executor": ["0", "1", "0"],
            "region": ["python", "python", "jvm"],
            "predicted_bytes": [10.0, 10.0, None],
            "peak_bytes": [4.0, 7.0, 5.0],
        }
    )
    metrics: dict[str, float] = {}
    files: dict[str, str] = {}
    monkeypatch.setattr(_tracking, "measured_memory", lambda _: rows)
    monkeypatch.setattr(SparkSession, "getActiveSession", object)
    monkeypatch.setattr(mlflow, "log_metric", metrics.__setitem__)
    monkeypatch.setattr(mlflow, "log_text", lambda text, name: files.update({name: text}))
    _tracking._log_memory()
    assert metrics == {"measured_peak_python_bytes": 7, "predicted_python_bytes": 10, "measured_peak_jvm_bytes": 5}
    assert "python,10.0,7.0" in files["memory.csv"]


def test_a_transfer_without_the_plugin_logs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    asked: list[Any] = []
    monkeypatch.setattr(_tracking, "measured_memory", asked.append)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: "session")
    _tracking._log_memory()
    assert asked == ["session"]
