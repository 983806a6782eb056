"""The plugin ends a Python worker before its executor has no memory left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import IMPORTS, SUPPORT
from sessions import CONNECT

from udfs.driver import plugin_jar

pytestmark = [
    pytest.mark.skipif(plugin_jar() is None, reason="make jvm builds the jar"),
    pytest.mark.skipif(CONNECT, reason="starts its own Spark"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def _run(job: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SUPPORT / "memory_hogs.py"), job, "local[2]", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(IMPORTS)},
        timeout=400,
    )


def test_the_task_that_did_not_fit_is_tried_again_alone(tmp_path: Path) -> None:
    """``local[2]`` allows no failure of a task: a kill that counted as one would end the job."""
    done = _run("pairs", tmp_path)
    assert "ROWS [0, 1]" in done.stdout, done.stderr[-4000:]
    marks = {path.name for path in tmp_path.glob("*-*-*")}
    (retried,) = [mark.split("-")[1] for mark in marks if mark.startswith("begun-") and not mark.endswith("-0")]
    kept = "1" if retried == "0" else "0"
    assert marks == {"begun-0-0", "begun-1-0", f"begun-{retried}-1", f"ended-{kept}-0", f"ended-{retried}-1"}
    # It began once the other one had ended.
    assert (tmp_path / f"ended-{kept}-0").stat().st_mtime <= (tmp_path / f"begun-{retried}-1").stat().st_mtime
    assert "PythonWorkerMemoryExceeded" in done.stderr and "of work are computed again" in done.stderr


def test_a_task_that_never_fits_fails_with_the_reason(tmp_path: Path) -> None:
    """Its worker ignores SIGTERM."""
    done = _run("endless", tmp_path)
    assert done.returncode == 1 and "ROWS" not in done.stdout
    reason = next(line for line in reversed(done.stderr.splitlines()) if "PythonWorkerMemoryExceeded: " in line)
    for part in ("must take at most", "their planned share, got", "limit of 1.4 GiB", "spark.task.cpus=2", "ran alone"):
        assert part in reason, reason
    assert "Python worker exited unexpectedly" not in done.stderr
    for mark in tmp_path.glob("begun-0-*"):
        assert not Path("/proc", mark.read_text()).exists(), "a worker outlived its task"
