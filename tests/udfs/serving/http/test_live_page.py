"""The live page in a browser: sign-in, figures, curves and states appear, change, and have room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browser import Page, open_page
from http_client import HttpClient, infer_body
from numpy_router import NumpyRouter

from udfs.serving.http import FrontEnd, Gauge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

ROW = infer_body("FP32", [1, 3], [[1.0, 2.0, 3.0]])
HOST = "ip-10-111-222-133.eu-central-1.compute.internal"
# Texts that are wider than their cells, and what a table does not scroll to within the window.
CUT = """[...document.querySelectorAll('td, th, figcaption, p, h1, h2, .scrolls')].filter(each =>
  each.offsetParent !== null && !each.matches('.scrolls') && each.scrollWidth > each.clientWidth + 1
  || !each.closest('table') && each.getBoundingClientRect().right > innerWidth
).map(each => each.textContent)"""


class Backends:
    """Gauges of two backends, of which the second may be lost."""

    def __init__(self) -> None:
        self.restarts, self.connected, self.waiting = 0, "yes", 0

    def __call__(self) -> list[Gauge]:
        second = {"backend": "b1", "host": HOST, "connected": self.connected}
        return [
            Gauge("backends", 2, "Connected backends."),
            Gauge("planned_occupancy", 0.376, "Share.", {"backend": "b0"}),
            Gauge("planned_batch", 8, "Rows of a batch.", {"backend": "b0", "session": "linear"}),
            Gauge("planned_batch", 16, "Rows of a batch.", {"backend": "b0", "session": "images"}),
            Gauge("waiting", self.waiting, "Rows that wait for a batch.", {"backend": "b0"}),
            Gauge("backend_restarts", 0, "Processes.", {"backend": "b0", "host": "h", "connected": "yes"}),
            Gauge("backend_restarts", self.restarts, "Processes.", second),
            Gauge("rows", 12, "Rows by session and result.", {"session": "linear", "ended": "in_time"}),
        ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def backends() -> Backends:
    return Backends()


@pytest.fixture
def front(backends: Backends) -> Iterator[FrontEnd]:
    router = NumpyRouter()
    with FrontEnd(router, port=0, gauges=backends, token="a-token") as front:
        yield front
    router.close()


def row(table: str, *names: str) -> str:
    """Write JavaScript that finds the texts of a row by its first cells; undefined where there is none."""
    cells = f"[...document.querySelectorAll('#{table} tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    return f"{cells}.find(cells => cells.slice(0, {len(names)}).join('|') === '{'|'.join(names)}')"


def heights(curve: str) -> list[float]:
    """List the heights of a chart's points, in pixels from the top."""
    return [float(point.rpartition(",")[2]) for point in curve.split("L")[1:]]


def test_a_token_signs_in_and_stays_for_the_session(front: FrontEnd, page: Page) -> None:
    url = f"http://127.0.0.1:{front.port}/"
    page.visit(url)
    page.wait("state.textContent === 'enter the token of this server'")
    assert page.value("[ask.hidden, main.hidden]") == [False, True]
    page.value("token.value = 'wrong'; ask.requestSubmit()")
    assert page.value("main.hidden")
    page.value("document.getElementById('token').value = 'a-token'; ask.requestSubmit()")
    page.wait("state.textContent === 'ready'")
    assert page.value("[ask.hidden, main.hidden]") == [True, False]
    page.visit(url)
    page.wait("state.textContent === 'ready'")


def test_figures_curves_and_states_change(front: FrontEnd, backends: Backends, page: Page) -> None:
    page.visit(f"http://127.0.0.1:{front.port}/#token=a-token")
    page.wait("state.textContent === 'ready'")
    assert page.value("location.hash") == "", "a token is not left in the address"
    first = page.wait(row("models", "linear", "2"))
    assert first[3:] == ["0.0", "-", "-", "-", "0"]
    assert page.wait(row("backends", "b0")) == ["b0", "h", "connected", "37.6 %", "0", "0", "linear (8), images (16)"]
    figure = "[...document.querySelectorAll('figure')].find(each => each.textContent.includes('linear 2, rate'))"
    curve = f"{figure}.querySelector('path').getAttribute('d')"
    assert "linear 2, rate: at most 0.0 requests/s" in page.value(f"{figure}.textContent")
    latency = figure.replace("rate", "p99")
    assert "linear 2, p99: no requests" in page.value(f"{latency}.textContent")
    assert page.value("document.querySelector('#gauges td:nth-child(2)').textContent") == "2"
    flat = heights(page.value(curve))
    refreshed = page.value("time.dateTime")

    client = HttpClient(front.port, "a-token")
    for _ in range(5):
        client.infer("linear", ROW)
    client.infer("fails", ROW)
    client.connection.close()
    backends.restarts, backends.connected, backends.waiting = 1, "no", 7

    shown = page.wait(f"(cells => cells && cells[3] !== '0.0' && cells)({row('models', 'linear', '2')})")
    assert shown[4] == "100.0 %"
    assert float(shown[5]) > 0
    results = page.wait(f"(cells => cells && cells[2] === '5' && cells)({row('results', 'linear', '2')})")
    assert results[3:] == ["0"] * 8
    assert page.value(row("results", "fails"))[6] == "1"
    assert page.value("document.querySelectorAll('#results .bad').length") == 1
    assert page.wait(f"(cells => cells[2] === 'not connected' && cells)({row('backends', 'b1')})")[1] == HOST
    assert page.value(row("backends", "b0"))[4] == "7"
    assert len(set(flat)) == 1
    risen = heights(page.value(curve))
    assert len(risen) == len(flat)
    assert min(risen[-2:]) < min(risen[:-2]), "the upper end is at 0 pixels"
    assert page.value(f"{latency}.querySelector('path').getBBox().x") > 290, "a point alone is drawn"
    assert " ms" in page.value(f"{latency}.textContent")
    assert page.value("time.dateTime") > refreshed


@pytest.mark.parametrize("width", [1440, 1024, 800, 500])
def test_nothing_is_cut(width: int, front: FrontEnd, page: Page, tmp_path: Path) -> None:
    page.visit(f"http://127.0.0.1:{front.port}/#token=a-token", width)
    page.wait(row("backends", "b1"))
    page.picture(tmp_path / "page.png")
    assert page.value(CUT) == []


def test_a_server_that_ended_is_named(front: FrontEnd, page: Page) -> None:
    page.visit(f"http://127.0.0.1:{front.port}/#token=a-token")
    page.wait("state.textContent === 'ready'")
    front.close()
    page.wait("state.textContent === 'the server does not answer'")
