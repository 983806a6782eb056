"""Status file of a worker: contents, times per phase, and silence without the plugin's folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from waiting import until

from udfs.arrow import NewColumns, RowMap, RowPolicy
from udfs.node import WorkerStatus, _worker_status, status_folder, worker_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for a task on an executor with the plugin."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_EXECUTOR_MEMORY_MB", raising=False)
    monkeypatch.setattr(_worker_status, "_status", None)
    monkeypatch.setattr(_worker_status.WorkerStatus, "_register_stack", lambda _: None)
    context = SimpleNamespace(
        taskAttemptId=lambda: 7, stageId=lambda: 3, cpus=lambda: 1, partitionId=lambda: 0, resources=dict
    )
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    made = status_folder()
    made.mkdir(0o700)
    return made


def content(folder: Path) -> dict[str, Any]:
    (file,) = folder.glob("*.json")
    assert file.stem == str(os.getpid())
    read: dict[str, Any] = json.loads(file.read_text())
    return read


def test_the_file_has_the_fields_of_the_channel(folder: Path) -> None:
    status = WorkerStatus(folder)
    status.begin("inference", 5 << 20)
    written = content(folder)
    assert (written["role"], written["planned_bytes"]) == ("inference", 5 << 20)
    assert (written["task_attempt_id"], written["stage_id"], written["rows"]) == (7, 3, 0)
    assert list(written["seconds"]) == ["start", "load", "decode", "compute", "convert"]
    assert abs(written["updated"] - time.time()) < 60
    status.end()
    assert (content(folder)["task_attempt_id"], content(folder)["stage_id"]) == (None, 3)
    assert not list(folder.glob("*.partial"))


def test_rows_and_seconds_accumulate_over_tasks(folder: Path) -> None:
    status = WorkerStatus(folder)
    began = time.perf_counter()
    for _ in range(2):
        status.begin("inference")
        with status.phase("compute"):
            with status.phase("decode"):
                time.sleep(0.02)
            time.sleep(0.01)
        status.add_rows(4)
        status.end()
    elapsed, written = time.perf_counter() - began, content(folder)
    assert written["rows"] == 8
    assert written["seconds"]["decode"] >= 0.04
    total = written["seconds"]["compute"] + written["seconds"]["decode"]
    assert written["seconds"]["compute"] >= 0.02
    assert total <= elapsed, "a block within a block is counted twice"


def test_the_start_is_measured_once_and_not_for_an_old_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, start in ((2.5, 2.5), (300.0, 0.0), (None, 0.0)):
        monkeypatch.setattr(_worker_status, "_process_age", lambda age=age: age)
        status = WorkerStatus(folder)
        status.begin("inference")
        status.end()
        assert content(folder)["seconds"]["start"] == start
        monkeypatch.setattr(_worker_status, "_process_age", lambda: 9.0)
        status.begin("inference")
        status.end()
        assert content(folder)["seconds"]["start"] == start


def test_a_second_passes_between_writes_within_a_task(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(_worker_status.time, "monotonic", lambda: clock.now)
    status = WorkerStatus(folder)
    status.begin("inference")
    for clock.now, rows in ((100.5, 0), (100.9, 0), (101.1, 3), (101.9, 3), (102.2, 5)):
        status.add_rows(1)
        assert content(folder)["rows"] == rows


@pytest.mark.parametrize("state", ["absent", "open to others", "a link", "a file", "no task"])
def test_nothing_is_written_without_the_plugin(folder: Path, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = folder.with_name("other")
    other.mkdir(0o700)
    if state == "open to others":
        folder.chmod(0o755)
    elif state == "no task":
        monkeypatch.setattr(TaskContext, "get", lambda: None)
    else:
        folder.rmdir()
        if state == "a link":
            folder.symlink_to(other)
        elif state == "a file":
            folder.write_text("")
    status = WorkerStatus(folder)
    status.begin("inference")
    with status.phase("decode"):
        status.add_rows(1)
    status.end()
    assert (status.rows, status.seconds["decode"]) == (0, 0.0)
    assert not list(other.iterdir())
    assert not folder.is_dir() or not list(folder.iterdir())


def test_a_folder_that_is_deleted_fails_no_task(folder: Path) -> None:
    status = WorkerStatus(folder)
    status.begin("inference")
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    status.add_rows(1)
    status.end()


def test_nested_tasks_and_other_threads_leave_the_role(folder: Path) -> None:
    status = WorkerStatus(folder)
    status.begin("serving")

    def answer() -> None:
        status.begin("inference")
        with status.phase("decode"):
            status.add_rows(5)
        status.end()
        status.end()

    thread = threading.Thread(target=answer)
    thread.start()
    thread.join()
    status.begin("inference")
    status.end()
    status.add_rows(2)
    assert (content(folder)["role"], content(folder)["task_attempt_id"]) == ("serving", 7)
    status.end()
    assert (content(folder)["rows"], status.seconds["decode"]) == (2, 0.0)


def test_units_of_a_search_are_written_with_their_times(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that begins within a second of the last write is written later, and only the latest are kept."""
    monkeypatch.setattr(_worker_status, "_INTERVAL_S", 0.2)
    status = WorkerStatus(folder)
    with status.unit("c000", "before the task"):
        pass
    status.begin("hopper")
    with status.unit("c001", "epoch 1, shard 0"):
        until(lambda: content(folder)["units"])
        (unit,) = content(folder)["units"]
        assert (unit["name"], unit["description"], unit["end"]) == ("c001", "epoch 1, shard 0", None)
    until(lambda: content(folder)["units"][0]["end"])
    for number in range(100):
        with status.unit(f"c{number}", ""):
            pass
    status.end()
    units = content(folder)["units"]
    assert [unit["name"] for unit in units] == [f"c{number}" for number in range(36, 100)]
    assert all(unit["begin"] <= unit["end"] for unit in units)


def test_memory_that_spark_gave_the_worker_is_its_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, planned in (("512", 512 << 20), ("-1", None), ("", None)):
        monkeypatch.setenv("PYSPARK_EXECUTOR_MEMORY_MB", text)
        status = WorkerStatus(folder)
        status.begin("inference")
        assert content(folder)["planned_bytes"] == planned


class Slow:
    batch_size = 2
    reads = ("x",)
    adds = (pa.field("y", pa.int64()),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        time.sleep(0.01)
        return lambda batch: NewColumns([batch.column("x")], [None] * batch.num_rows)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_row_map_reports_rows_and_ends_its_task(folder: Path, stopped: bool) -> None:
    batches = [pa.RecordBatch.from_pydict({"x": [1, 2, 3, 4, 5]})]
    rows = RowMap(Slow(), (), RowPolicy("null"))(batches)
    if stopped:
        next(rows)
        rows.close()
    else:
        assert sum(batch.num_rows for batch in rows) == 5
    written = content(folder)
    assert written["rows"] == (2 if stopped else 5)
    assert written["task_attempt_id"] is None
    assert written["seconds"]["load"] >= 0.01
    assert worker_status().rows == written["rows"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals and /proc")
def test_a_signal_writes_the_stack(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from pyspark import TaskContext
from udfs.node import WorkerStatus
TaskContext.get = staticmethod(lambda: SimpleNamespace(taskAttemptId=lambda: 1, stageId=lambda: 0))
WorkerStatus(Path(sys.argv[1])).begin("inference")
def hang():
    print("ready", flush=True)
    time.sleep(60)
hang()
"""
    tmp_path.chmod(0o700)
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        stack = tmp_path / f"{process.pid}.stack"
        assert stack.read_text() == ""
        process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + 20
        while "in hang" not in stack.read_text():
            assert time.monotonic() < until, stack.read_text()
            time.sleep(0.02)
        assert process.poll() is None, "the signal ended the process"
        ticks = json.loads((tmp_path / f"{process.pid}.json").read_text())["started_ticks"]
        assert str(ticks) in (tmp_path.__class__(f"/proc/{process.pid}/stat")).read_text()
        process.kill()
