from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT
from standalone import StandaloneCluster, mark_suite, spark_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DRIVER = Path(__file__).with_name("driver.py")
_SECONDS = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_suite(items, "faults")


@dataclass
class Search:
    """A search in a driver process of its own, on a cluster."""

    cluster: StandaloneCluster
    store: Path
    run: str
    folder: Path
    driver: Path = _DRIVER
    process: subprocess.Popen[str] | None = None
    _reader: threading.Thread | None = None
    _lines: list[str] = field(default_factory=list)

    def start(self, mode: str = "fit", **settings: Any) -> Search:
        command = [
            sys.executable,
            str(self.driver),
            self.cluster.url,
            str(self.store),
            self.run,
            mode,
            json.dumps(settings),
        ]
        environment = spark_environment(self.folder, Path(sys.executable), SPARK_LOCAL_IP=self.cluster.host)
        environment["PYTHONPATH"] = str(ROOT)
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self._lines.extend(lines)

    def wait_for_units(self, count: int) -> None:
        """Wait until the store has the checkpoints of so many units."""
        self.wait_until(lambda: sum(self.versions().values()) >= count)

    def wait_for_orders(self, count: int) -> None:
        """Wait until the store has what the procedure decided in so many calls."""
        self.wait_until(lambda: len(list((self.store / "runs" / self.run / "orders").glob("*"))) >= count)

    def versions(self) -> dict[str, int]:
        """The units of each trial whose checkpoints the store has."""
        folders = (self.store / "runs" / self.run / "checkpoints").glob("*")
        return {folder.name: _version(folder) for folder in folders}

    def wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not happened():
            assert self.process is not None
            assert self.process.poll() is None, "".join(self._lines)
            assert time.monotonic() < deadline, "".join(self._lines)
            time.sleep(0.05)

    def wait_for_line(self, words: str) -> None:
        """Wait until the driver has printed something."""
        self.wait_until(lambda: any(words in line for line in list(self._lines)))

    def count_lines(self, words: str) -> int:
        """Count the lines with some words that the driver has printed."""
        return sum(words in line for line in list(self._lines))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def result(self) -> dict[str, Any]:
        text = self.text()
        (line,) = [line for line in text.splitlines() if line.startswith("FOUND ")] or [pytest.fail(text)]
        found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
        return found

    def text(self) -> str:
        assert self.process is not None
        assert self._reader is not None
        self.process.wait(_SECONDS)
        self._reader.join()
        return "".join(self._lines)


def _version(folder: Path) -> int:
    return max((int(path.name.partition("-")[0]) for path in folder.glob("[0-9]*.json")), default=0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and three workers with a core each."""
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), Path(sys.executable), workers=3) as running:
        yield running


@pytest.fixture
def searching(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[Callable[[str], Search]]:
    made: list[Search] = []

    def begin(run: str, store: Path | None = None, on: StandaloneCluster = cluster, driver: Path = _DRIVER) -> Search:
        folder = tmp_path / f"driver-{len(made)}"
        folder.mkdir()
        made.append(Search(on, store or tmp_path / "store", run, folder, driver))
        return made[-1]

    yield begin
    for search in made:
        if search.process is not None:
            search.kill()
            search.text()


@pytest.fixture(scope="module")
def calm(cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Give the report of a search when nothing happens; of each name one is run."""
    known: dict[str, dict[str, Any]] = {}

    def report(name: str, **settings: Any) -> dict[str, Any]:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            known[name] = Search(cluster, folder / "store", "calm", folder).start(**settings).result()
        return known[name]

    return report


@pytest.fixture(scope="module")
def undisturbed(calm: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The report of the grid search when nothing happens."""
    return calm("grid", seconds=0.0)
