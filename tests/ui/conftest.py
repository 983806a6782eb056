"""A steering server with its pages, a runner without Spark, and a browser."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from browser import Page, open_page
from pages import open_experiment
from steering_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_runner import FakeRunner


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def runner(server: Server) -> FakeRunner:
    """A run of six configurations in different states."""
    runner = server.runner()
    runner.start_all({f"c{place:03}": {"lr": 0.1 / 2**place, "hidden": 16 * (place + 1)} for place in range(6)})
    for place in range(6):
        runner.train(f"c{place:03}", *(0.2 + 0.1 * place + math.exp(-epoch) for epoch in range(1, 7 - place)))
    runner.end_trial("c004", "raised", "Traceback (most recent call last):\nValueError: <img src=x onerror=alert(1)>")
    return runner


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("browser")) as page:
        yield page


@contextmanager
def watched(page: Page, server: Server) -> Iterator[Page]:
    """Fail for an error in the console, and for a request to another host."""
    page.watch()
    yield page
    page.value("1")  # receives the last events
    assert page.problems == []
    assert page.hosts <= {f"127.0.0.1:{server.port}"}
    page.close_tab()


@pytest.fixture
def page(browser: Page, server: Server) -> Iterator[Page]:
    """A page of an editor."""
    with watched(browser.another_user(), server) as page:
        page.visit(server.link())
        yield page


@pytest.fixture
def experiment(page: Page, server: Server, runner: FakeRunner) -> Page:
    """The page of the run."""
    open_experiment(page, server.url("experiments/adult"))
    return page
