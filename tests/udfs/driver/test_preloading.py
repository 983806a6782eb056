"""When a session imports torch before its workers are forked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from udfs.driver import _preloading
from udfs.driver._preloading import preloading_conf
from udfs.preloading import DAEMON_MODULE

NAME = "spark.python.daemon.module"


@pytest.fixture(autouse=True)
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the Pythons that are probed; all but "/lacks/torch" have what a worker needs."""
    pythons: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        pythons.append(command[0])
        if command[0] == "/no/python":
            raise FileNotFoundError(command[0])
        return subprocess.CompletedProcess(command, int(command[0] == "/lacks/torch"))

    monkeypatch.setattr(_preloading.subprocess, "run", run)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return pythons


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_a_local_session_sets_the_daemon(master: str, probed: list[str]) -> None:
    assert preloading_conf(master, {}) == {NAME: DAEMON_MODULE}
    assert probed == [sys.executable]


@pytest.mark.parametrize("master", [None, "local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://host"])
def test_executors_of_a_cluster_may_lack_the_module(master: str | None, probed: list[str]) -> None:
    assert preloading_conf(master, {}) == {}
    assert not probed


@pytest.mark.parametrize(
    "conf", [{NAME: "pyspark.daemon"}, {NAME: "my.daemon"}, {"spark.python.use.daemon": "False"}], ids=str
)
def test_settings_of_the_caller_stay(conf: dict[str, str], probed: list[str]) -> None:
    assert preloading_conf("local[2]", conf) == {}
    assert not probed


def test_settings_of_spark_defaults_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{NAME} my.daemon\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert preloading_conf("local[2]", {}) == {}


def test_the_python_of_the_workers_is_asked(monkeypatch: pytest.MonkeyPatch, probed: list[str]) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/of/variable")
    preloading_conf("local[2]", {})
    preloading_conf("local[2]", {"spark.pyspark.python": "/of/setting"})
    assert probed == ["/of/variable", "/of/setting"]


@pytest.mark.parametrize("python", ["/lacks/torch", "/no/python"])
def test_a_python_that_lacks_something_keeps_sparks_daemon(python: str) -> None:
    assert preloading_conf("local[2]", {"spark.pyspark.python": python}) == {}


def test_other_systems_have_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert preloading_conf("local[2]", {}) == {}


@pytest.mark.parametrize("hidden", [False, True])
def test_a_folder_that_hides_udfs_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool) -> None:
    """Python looks in the working directory first, as it does for the daemon."""
    monkeypatch.undo()
    pytest.importorskip("torch")
    if hidden:
        (tmp_path / "udfs").mkdir()
        (tmp_path / "udfs" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    root = str(Path(_preloading.__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", root)
    expected = {} if hidden or not sys.platform.startswith("linux") else {NAME: DAEMON_MODULE}
    assert preloading_conf("local[2]", {"spark.pyspark.python": sys.executable}) == expected
