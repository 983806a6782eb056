"""The daemon that imports torch before it forks: its conditions, its fallbacks, and forks that run a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT
from sessions import CONNECT

from udfs.preloading import DAEMON_MODULE

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(CONNECT, reason="once is enough"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc"),
]

if TYPE_CHECKING:
    from pathlib import Path

# Forks as the daemon does. Each child runs the libraries that start threads: OpenBLAS, OpenMP in torch, Arrow's pool.
_FORKS = """
import gc, json, os, signal, sys, time
from udfs.preloading import fork_hazard
from udfs.preloading.daemon import MODULES, preload

preload(MODULES)
import numpy as np, pyarrow as pa, torch
assert fork_hazard() is None, fork_hazard()
network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(800, 4))
images = torch.ones(2, 3, 12, 12)
expected = None
gc.collect()
gc.freeze()

def compute():
    torch.set_num_threads(2)
    square = np.ones((80, 80)) @ np.ones((80, 80))
    loss = network(images).square().sum()
    loss.backward()
    gradient = network[0].weight.grad.sum().item()
    table = pa.table({"x": np.arange(1000)}).sort_by("x").combine_chunks()
    return json.dumps([loss.item(), gradient, square[0, 0], table.num_rows])

results, hangs, running = set(), 0, {}
def finish(pid, reader):
    global hangs
    signal.alarm(60)
    try:
        results.add(os.read(reader, 1000).decode())
    except TimeoutError:
        hangs += 1
        os.kill(pid, signal.SIGKILL)
    signal.alarm(0)
    os.close(reader)
    assert os.waitpid(pid, 0)[1] == 0 or hangs

def expire(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, expire)
for _ in range(int(sys.argv[1])):
    assert fork_hazard() is None, fork_hazard()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, compute().encode())
        os._exit(0)
    os.close(writer)
    running[pid] = reader
    if len(running) == 4:
        first = next(iter(running))
        finish(first, running.pop(first))
while running:
    finish(*running.popitem())
print(json.dumps([hangs, sorted(results)]))
"""

# Sessions are slow to start, so one answers all questions.
_SESSION = """
import json, os, sys, time
import pyarrow as pa
from vista_spark import session

def look(batches):
    before = "torch" in sys.modules
    import numpy as np, torch
    for _ in batches:
        pass
    time.sleep(5)  # so that each task has a worker of its own
    with open(f"/proc/{os.getppid()}/cmdline") as file:
        daemon = file.read().split("\\0")
    seen = {
        "daemon": daemon[daemon.index("-m") + 1] if "-m" in daemon else "", "preloaded": before,
        "drawn": float(np.random.rand()), "fork": os.fork.__module__, "sum": float(torch.ones(3).sum()),
        "pid": os.getpid(),
    }
    yield pa.RecordBatch.from_pydict({"seen": [json.dumps(seen)]})

spark = session("local[2]", conf={"spark.ui.enabled": "false", **json.loads(sys.argv[1])})
rows = spark.range(2, numPartitions=2).mapInArrow(look, "seen string").collect()
print("SEEN" + json.dumps([json.loads(row.seen) for row in rows]))
spark.stop()
"""


def _python(folder: Path, code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )


def _forks(folder: Path, count: int, **environment: str) -> None:
    done = _python(folder, _FORKS, str(count), **environment)
    assert done.returncode == 0, done.stderr
    hangs, results = json.loads(done.stdout)
    assert hangs == 0
    assert len(results) == 1, "children differ"


@pytest.mark.parametrize("threads", ["1", "4"])
def test_forks_run_a_network(tmp_path: Path, threads: str) -> None:
    _forks(tmp_path, 40, OMP_NUM_THREADS=threads)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_thousand_forks_run_a_network(tmp_path: Path, threads: str) -> None:
    _forks(tmp_path, 1000, OMP_NUM_THREADS=threads)


def _session(folder: Path, conf: dict[str, str], **environment: str) -> tuple[list[dict[str, Any]], str]:
    done = _python(folder, _SESSION, json.dumps(conf), **environment)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN")]
    return json.loads(line.removeprefix("SEEN")), done.stderr


def test_a_local_session_forks_workers_that_have_torch(tmp_path: Path) -> None:
    workers, log = _session(tmp_path, {})
    assert {worker["daemon"] for worker in workers} == {DAEMON_MODULE}
    assert all(worker["preloaded"] and worker["sum"] == 3 for worker in workers)
    assert {worker["fork"] for worker in workers} == {"posix"}, "a fork of the user's code is not checked"
    assert len({worker["drawn"] for worker in workers}) == len({worker["pid"] for worker in workers})
    assert "cerebro-spark:" not in log


def test_a_daemon_that_the_user_names_stays(tmp_path: Path) -> None:
    workers, _ = _session(tmp_path, {"spark.python.daemon.module": "pyspark.daemon"})
    assert {(worker["daemon"], worker["preloaded"]) for worker in workers} == {("pyspark.daemon", False)}


# A module that starts a thread at import, and one that starts it after the first fork.
_EARLY = "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n"
_LATE = """
import os, threading, time
forks = []
def late():
    forks.append(1)
    if len(forks) == 2:  # after the fork that ends the threads of OpenBLAS, and that of the first worker
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
os.register_at_fork(after_in_parent=late)
"""


@pytest.mark.slow
def test_a_thread_at_import_means_the_ordinary_daemon(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(_EARLY)
    workers, log = _session(tmp_path, {"spark.executorEnv.CEREBRO_PRELOAD": "torch,busy"})
    assert {(worker["daemon"], worker["preloaded"]) for worker in workers} == {("pyspark.daemon", False)}
    assert "workers import their modules themselves: the process has 2 threads" in log


def test_a_thread_before_a_later_fork_means_a_new_process(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(_LATE)
    workers, log = _session(tmp_path, {"spark.executorEnv.CEREBRO_PRELOAD": "torch,late"})
    assert {worker["daemon"] for worker in workers} == {DAEMON_MODULE}
    assert sorted(worker["preloaded"] for worker in workers) == [False, True]
    assert "imports its modules itself: the process has 2 threads" in log


def test_a_module_that_prints_or_fails_does_no_harm(tmp_path: Path) -> None:
    """Spark reads the daemon's port from its standard output."""
    (tmp_path / "loud.py").write_text("print('loud'); import os; os.write(1, b'louder')\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    workers, log = _session(tmp_path, {"spark.executorEnv.CEREBRO_PRELOAD": "loud,broken,not_installed,torch"})
    assert all(worker["preloaded"] for worker in workers)
    assert "broken cannot be imported before workers are forked: ZeroDivisionError" in log
    assert "not_installed" not in log


@pytest.mark.parametrize(
    ("code", "hazard"),
    [
        ("", None),
        ("import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "2 threads"),
        (
            "import sys; from unittest.mock import Mock; sys.modules['torch'] = Mock()",
            "torch has initialised a GPU",
        ),
        ("_safety._GPU_FILES = (__file__,); file = open(__file__)", "a GPU is open"),
        ("from pathlib import Path; _safety._THREADS = Path('/no/proc')", "no /proc"),
    ],
)
def test_hazards(tmp_path: Path, code: str, hazard: str | None) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"from udfs.preloading import _fork_safety as _safety, fork_hazard\n{code}\nprint(fork_hazard())\n"
        "import os; os._exit(0) if not __import__('sys').stdout.flush() else None\n"
    )
    done = _python(tmp_path, f"import runpy; runpy.run_path({str(program)!r})")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None" if hazard is None else hazard in done.stdout
