from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from real_inputs import squeezenet_state_dict
from standalone import StandaloneCluster, bare_python, mark_suite, spark_environment
from transfers import Transfer, write_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGGED = ("cluster", "connect_server")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_suite(items, "cluster")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report: pytest.TestReport = yield
    if report.failed:
        for name in _LOGGED:
            # Of the fixtures that are there: one that failed to start has its log in the error.
            daemon = getattr(item, "funcargs", {}).get(name)
            if daemon is not None:
                report.sections.append((f"logs of {name}", daemon.logs()))
    return report


@pytest.fixture(scope="session")
def node_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the cluster's nodes: the third-party packages, and not this project."""
    return bare_python(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, node_python: Path) -> Iterator[StandaloneCluster]:
    """A master and two workers with a core each."""
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), node_python) as running:
        yield running


@pytest.fixture(scope="session")
def transfer(tmp_path_factory: pytest.TempPathFactory) -> Transfer:
    torch = pytest.importorskip("torch")
    made = Transfer(tmp_path_factory.mktemp("inputs") / "data")
    write_inputs(made.folder)
    torch.save(squeezenet_state_dict(), made.weights)
    return made


@pytest.fixture(scope="session")
def expected(transfer: Transfer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command's result on this machine alone."""
    folder = tmp_path_factory.mktemp("local")
    done = subprocess.run(
        [sys.executable, "-m", "vista_spark", *transfer.command(folder / "out"), "--master", "local[2]"],
        cwd=folder,
        env=spark_environment(folder, Path(sys.executable)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"
