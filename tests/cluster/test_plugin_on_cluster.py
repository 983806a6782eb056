"""The JVM plugin on a standalone cluster, as each of the three ways to start Spark loads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from places import IMPORTS, SUPPORT
from standalone import SparkConnectServer, StandaloneCluster, spark_environment

from udfs.driver import plugin_conf, plugin_jar

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(plugin_jar() is None, reason="make jvm builds the jar")

_QUERY = """
import contextlib, io, sys
import pushdown_plans
from pushdown_plans import collected, stage, table
from pyspark import cloudpickle
from vista_spark import session
cloudpickle.register_pickle_by_value(pushdown_plans)
spark = session({master}, conf={conf}, ship=True)
features, _ = stage(table(spark))
query = features.where("id < 4")
text = io.StringIO()
with contextlib.redirect_stdout(text):
    query.explain()
print("ROWS", len(collected(query)), "moved below" in text.getvalue())
spark.stop()
"""

_SMALL = {"spark.executor.memory": "512m", "spark.ui.enabled": "false"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and one worker with one core, whose Python has this project."""
    with StandaloneCluster(tmp_path_factory.mktemp("small"), Path(sys.executable), workers=1) as running:
        yield running


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=spark_environment(folder, Path(sys.executable), PYTHONPATH=os.pathsep.join(IMPORTS)),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-4000:]
    return done.stdout


def test_session_sends_the_jar_to_executors(small: StandaloneCluster, tmp_path: Path) -> None:
    assert "ROWS 4 True" in _run(tmp_path, sys.executable, "-c", _QUERY.format(master=repr(small.url), conf=_SMALL))


def test_spark_submit_with_the_options_of_the_guide(small: StandaloneCluster, tmp_path: Path) -> None:
    conf = plugin_conf() | {"spark.executor.memory": "512m", "spark.driver.memory": "1g"}
    script = tmp_path / "job.py"
    script.write_text(_QUERY.format(master=None, conf={}))
    options = [option for name, value in conf.items() for option in ("--conf", f"{name}={value}")]
    submit = Path(sys.executable).with_name("spark-submit")
    assert "ROWS 4 True" in _run(tmp_path, str(submit), "--master", small.url, *options, str(script))


def test_spark_submit_without_the_jar_runs(small: StandaloneCluster, tmp_path: Path) -> None:
    """Its JVM cannot load a jar later, so ``session`` sets nothing."""
    script = tmp_path / "job.py"
    script.write_text(_QUERY.format(master=None, conf={}))
    submit = Path(sys.executable).with_name("spark-submit")
    printed = _run(tmp_path, str(submit), "--master", small.url, "--conf", "spark.executor.memory=512m", str(script))
    assert "ROWS 4 False" in printed


def test_a_connect_server_serves_clients_without_the_jar(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    conf = plugin_conf() | {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}
    with SparkConnectServer(tmp_path / "server", "local[2]", Path(sys.executable), conf) as server:
        code = _QUERY.format(master=repr(server.url), conf={})
        assert "ROWS 4 True" in _run(tmp_path, sys.executable, "-c", code)


_MEMORY = """
import json, time
from vista_spark import memory, session
spark = session({master}, conf={conf}, ship=True)
spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
until = time.monotonic() + 60
rows = []
while time.monotonic() < until and not [row for row in rows if row.region == "python" and row.measured_bytes]:
    time.sleep(0.5)
    rows = memory(spark).collect()
print("ROWS", json.dumps([[row.executor, row.region, row.measured_bytes, row.predicted_bytes] for row in rows]))
spark.stop()
"""


def _measured(printed: str) -> dict[tuple[str, str], tuple[int, int]]:
    rows = json.loads(printed.partition("ROWS ")[2].splitlines()[0])
    return {(executor, region): (measured, predicted) for executor, region, measured, predicted in rows}


def test_executors_report_their_memory(small: StandaloneCluster, tmp_path: Path) -> None:
    conf = _SMALL | {"spark.cerebro.memory.plan": "cores=1,heap=500,overhead=60,off_heap=0,python=70,dl=80"}
    rows = _measured(_run(tmp_path, sys.executable, "-c", _MEMORY.format(master=repr(small.url), conf=conf)))
    assert {executor for executor, _ in rows} == {"0"}, "the driver runs no tasks"
    measured, predicted = rows["0", "python"]
    assert measured > 10 << 20 and predicted == 150
    assert rows["0", "total"][0] > rows["0", "jvm"][0] > 100 << 20


def test_memory_through_connect(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    conf = plugin_conf() | {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}
    with SparkConnectServer(tmp_path / "server", "local[2]", Path(sys.executable), conf) as server:
        rows = _measured(_run(tmp_path, sys.executable, "-c", _MEMORY.format(master=repr(server.url), conf={})))
    assert rows["driver", "python"][0] > 10 << 20


def test_an_executor_survives_tasks_that_do_not_fit(tmp_path: Path) -> None:
    """One of two tasks is ended and tried again alone; the executor and its other task go on."""
    marks = tmp_path / "marks"
    marks.mkdir()
    with StandaloneCluster(tmp_path / "wide", Path(sys.executable), workers=1, cores=2) as wide:
        printed = _run(tmp_path, sys.executable, str(SUPPORT / "memory_hogs.py"), "pairs", wide.url, str(marks))
        started = list(wide.folder.glob("worker-0/work/*/*/stderr"))
        log = "".join(file.read_text() for file in started)
    assert "ROWS [0, 1]" in printed
    assert [file.parent.name for file in started] == ["0"], "an executor was lost"
    assert log.count("of work are computed again") == 1
    assert len(list(marks.glob("begun-*-1"))) == 1
