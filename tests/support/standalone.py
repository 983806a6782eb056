"""Spark's standalone cluster on loopback, started from the installed pyspark: real processes that a test can kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import venv
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil
import pyspark
import pytest
from sessions import CONNECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = [
    "SPARK_HOME",
    "Executor",
    "Node",
    "SparkConnectServer",
    "StandaloneCluster",
    "bare_python",
    "mark_suite",
    "spark_environment",
]

SPARK_HOME = Path(pyspark.__file__).parent
_IP = "/usr/sbin/ip"
_START_SECONDS = 90
_LOG_LINES = 40
# PR_SET_PDEATHSIG: a context manager cannot end its processes if this process is killed with -9.
_MORTAL = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
# Java's second compiler pays off only after minutes; before that it competes for a small machine's cores.
_QUICK = "-XX:TieredStopAtLevel=1"
_DEFAULTS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.memory": "1g",
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    session: int
    command: tuple[str, ...]

    def option(self, name: str) -> str:
        return self.command[self.command.index(name) + 1]


@dataclass(frozen=True, slots=True)
class Executor:
    """JVM of one executor."""

    pid: int
    application: str
    id: str
    worker: int
    """Index in :attr:`StandaloneCluster.workers`."""


def mark_suite(items: Sequence[pytest.Item], name: str) -> None:
    """Mark a folder's tests, which start servers, by the folder's name, and skip them where they cannot run."""
    for item in items:
        if name in item.path.parts:
            item.add_marker(name)
            if CONNECT:
                item.add_marker(pytest.mark.skip(reason="starts its own servers"))
            elif sys.platform != "linux":
                item.add_marker(pytest.mark.skip(reason="finds processes in /proc"))


def bare_python(folder: Path) -> Path:
    """Create an interpreter with this one's third-party packages, but without this project.

    The project is installed editable, by a ``.pth`` file. Python ignores such files in a folder that
    another ``.pth`` file put on the path.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    third_party = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "third_party.pth").write_text("\n".join(third_party) + "\n")
    return folder / "bin" / "python"


def spark_environment(folder: Path, python: Path, **added: str) -> dict[str, str]:
    """Copy this process's environment without its Spark and Python settings.

    Parameters
    ----------
    folder : Path
        Folder for Spark's scratch files and its ``spark-defaults.conf``.
    python : Path
        Python interpreter of the workers.
    **added : str
        Additional variables.
    """
    configuration = folder / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    defaults = "\n".join(f"{name} {value}" for name, value in _DEFAULTS.items())
    (configuration / "spark-defaults.conf").write_text(f"{defaults}\n")
    excluded = ("SPARK_", "PYSPARK_", "PYTHON", "MLFLOW_", "COVERAGE_", "VIRTUAL_ENV")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(excluded)}
    return {
        **inherited,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_CONF_DIR": str(configuration),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "COLUMNS": "200",
        **added,
    }


class _Daemon:
    """Process with a log; all its descendants end with it."""

    def __init__(self, name: str, folder: Path, command: Sequence[str], environment: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            # Its own session, which descendants keep even if they change their process group, as Python's workers do.
            # It starts in its own folder, since Python puts the working folder on the path of its workers.
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MORTAL, *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> str:
        """Wait until the log matches a pattern; return its first group."""
        match = _until(lambda: re.search(pattern, self.log.read_text(errors="replace")), self._check)
        return match[1]

    def _check(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{_tail(self.log)}")

    def stop(self) -> None:
        """End the process and all its descendants, even if it has ended already."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for process in _processes():
            if process.session == self.process.pid:
                _signal(process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()


class Node:
    """Network namespace with one cable to this machine, which can be cut. Context manager; Linux only, as root.

    Parameters
    ----------
    name : str
        Name of the namespace; the ends of the cable add an ``h`` or an ``n``. At most 14 characters.
    host, address : str
        Addresses of this machine's end and of the node's end.

    Raises
    ------
    PermissionError
        This user cannot create a network namespace.
    """

    def __init__(self, name: str, host: str, address: str) -> None:
        self.name, self.host, self.address = name, host, address

    def __enter__(self) -> Self:
        near, far = f"{self.name}h", f"{self.name}n"
        for command in (
            ["netns", "add", self.name],
            ["link", "add", near, "type", "veth", "peer", "name", far],
            ["link", "set", far, "netns", self.name],
            ["addr", "add", f"{self.host}/30", "dev", near],
            ["link", "set", near, "up"],
            ["-n", self.name, "addr", "add", f"{self.address}/30", "dev", far],
            ["-n", self.name, "link", "set", far, "up"],
            ["-n", self.name, "link", "set", "lo", "up"],
        ):
            try:
                done = subprocess.run([_IP, *command], capture_output=True, text=True, check=False)
            except FileNotFoundError as error:
                raise PermissionError(f"there is no {_IP}") from error
            if done.returncode:
                self.__exit__()
                raise PermissionError(f"ip {' '.join(command)}: {done.stderr.strip()}")
        return self

    def __exit__(self, *_exception: object) -> None:
        for command in (["link", "del", f"{self.name}h"], ["netns", "del", self.name]):
            subprocess.run([_IP, *command], capture_output=True, check=False)

    def inside(self, command: Sequence[str]) -> list[str]:
        """Wrap a command so that it runs on the node."""
        return [_IP, "netns", "exec", self.name, *command]

    def cut(self) -> None:
        """Drop every packet from now on, both ways, without closing a connection."""
        subprocess.run([_IP, "link", "set", f"{self.name}h", "down"], check=True)


class StandaloneCluster:
    """Spark master and workers on 127.0.0.1. Context manager; Linux only.

    Parameters
    ----------
    folder : Path
        Folder for logs, the executors' files and Spark's scratch files.
    python : Path
        Python interpreter of the nodes.
    workers : int
        Number of workers at the start.
    cores : int
        Cores per worker.
    memory : str
        Memory per worker, in Spark's notation.
    host : str
        Address of the master and the workers.
    """

    def __init__(
        self,
        folder: Path,
        python: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "2g",
        host: str = "127.0.0.1",
    ) -> None:
        self.folder = folder
        self.python = python
        self.host = host
        self.workers: list[_Daemon] = []
        self.url = ""
        self._size = workers
        self._cores = cores
        self._memory = memory
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with self._running:
            master = self._start("master", "master.Master", "--host", self.host, "--port", "0", "--webui-port", "0")
            self.url = master.wait_for(rf"Starting Spark master at (spark://{re.escape(self.host)}:\d+)")
            for _ in range(self._size):
                self.add_worker(wait=False)
            for worker in self.workers:
                worker.wait_for(r"(Successfully registered) with master")
            # From here on, __exit__ stops them.
            self._running = self._running.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._running.close()

    def add_worker(self, *, wait: bool = True, node: Node | None = None) -> None:
        """Start another worker, on its own node or beside the others."""
        name = f"worker-{len(self.workers)}"
        options = [
            "--host",
            self.host if node is None else node.address,
            "--port",
            "0",
            "--webui-port",
            "0",
            "--cores",
            str(self._cores),
        ]
        options += ["--memory", self._memory, "--work-dir", str(self.folder / name / "work")]
        worker = self._start(name, "worker.Worker", *options, self.url, node=node)
        self.workers.append(worker)
        if wait:
            worker.wait_for(r"(Successfully registered) with master")

    def kill_worker(self, place: int) -> None:
        """Kill a worker with its executors and their Python workers by ``kill -9``, as if its node lost power."""
        process = self.workers[place].process
        process.kill()
        process.wait()
        self.workers[place].stop()

    def executors(self, application: str | None = None) -> list[Executor]:
        """List the executors that run now, of one application or of all."""
        places = {worker.process.pid: place for place, worker in enumerate(self.workers)}
        executors = [
            Executor(process.pid, process.option("--app-id"), process.option("--executor-id"), places[process.session])
            for process in _processes()
            if process.session in places and any("CoarseGrainedExecutorBackend" in word for word in process.command)
        ]
        return [executor for executor in executors if application in (None, executor.application)]

    def python_workers(self, application: str | None = None) -> list[int]:
        """List the process ids of the Python workers that run now, without their daemon, the executor's child.

        Those that have computed most come first: some that prepared the data stay idle beside those that train.
        """
        processes = list(_processes())
        executors = {executor.pid for executor in self.executors(application)}
        daemons = {process.pid for process in processes if process.parent in executors}
        workers = [process.pid for process in processes if process.parent in daemons]
        return sorted(workers, key=_cpu_seconds, reverse=True)

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill an executor or a Python worker of this cluster by ``kill -9``, or send it another signal."""
        sessions = {worker.process.pid for worker in self.workers}
        if pid not in {process.pid for process in _processes() if process.session in sessions}:
            raise ValueError(f"process {pid} does not belong to this cluster")
        _signal(pid, number)

    def submit(
        self, script: Path, *arguments: str, py_files: Sequence[Path] = (), conf: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with ``spark-submit`` in client mode, with the nodes' Python in the driver too."""
        place = self.folder / "driver"
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, *_settings(conf)]
        command += ["--py-files", ",".join(map(str, py_files))] if py_files else []
        return subprocess.run(
            [*command, str(script), *arguments],
            cwd=place,
            env=spark_environment(place, self.python),
            capture_output=True,
            text=True,
            check=False,
        )

    def logs(self) -> str:
        """Return the end of every log, including those of the executors."""
        paths = [*self.folder.rglob("*.log"), *self.folder.rglob("stderr")]
        return "\n".join(f"--- {path.relative_to(self.folder)}\n{_tail(path)}" for path in sorted(paths))

    def _start(self, name: str, daemon: str, *options: str, node: Node | None = None) -> _Daemon:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon}", *options]
        started = _Daemon(
            name,
            self.folder / name,
            command if node is None else node.inside(command),
            spark_environment(
                self.folder / name,
                self.python,
                SPARK_DAEMON_MEMORY="256m",
                # Disable the master's REST endpoint, whose port is fixed.
                SPARK_DAEMON_JAVA_OPTS=f"{_QUICK} -Dspark.master.rest.enabled=false",
                SPARK_NO_DAEMONIZE="1",
                SPARK_LOCAL_IP=self.host if node is None else node.address,
            ),
        )
        return self._running.enter_context(started)


class SparkConnectServer(_Daemon):
    """Spark Connect server on 127.0.0.1; clients connect to ``url``.

    Parameters
    ----------
    folder : Path
        Folder for the log and Spark's scratch files.
    master : str
        Spark master that runs its jobs.
    python : Path
        Python interpreter of its workers.
    conf : mapping of str to str
        Spark settings.
    """

    def __init__(self, folder: Path, master: str, python: Path, conf: Mapping[str, str] | None = None) -> None:
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **(conf or {}),
        }
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *_settings(settings)]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        super().__init__("connect-server", folder, command, spark_environment(folder, python))
        self.url = ""

    def __enter__(self) -> Self:
        try:
            port = self.wait_for(r"Spark Connect server started at: \S*:(\d+)")
        except BaseException:
            self.stop()
            raise
        self.url = f"sc://127.0.0.1:{port}"
        return self

    def logs(self) -> str:
        """Return the end of the log."""
        return f"--- {self.name}\n{_tail(self.log)}"


def _settings(conf: Mapping[str, str] | None) -> list[str]:
    return [word for name, value in (conf or {}).items() for word in ("--conf", f"{name}={value}")]


def _until(attempt: Callable[[], re.Match[str] | None], check: Callable[[], None]) -> re.Match[str]:
    deadline = time.monotonic() + _START_SECONDS
    while (match := attempt()) is None:
        check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_START_SECONDS} s")
        time.sleep(0.1)
    return match


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has ended already
        os.kill(pid, number)


def _cpu_seconds(pid: int) -> float:
    with suppress(psutil.Error):
        return float(psutil.Process(pid).cpu_times().user)
    return 0.0


def _processes() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The program's name is in parentheses and may contain any character.
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
            yield _Process(int(entry.name), int(status[1]), int(status[3]), tuple(command.split("\0")))
