"""One event stream per browser, and pages that catch up after any interruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pages import button, cell, confirm, count, open_experiment, wait_for_cell
from steering_server import Server
from web_proxy import proxied
from web_shell import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from browser import Page
    from fake_runner import FakeRunner

pytestmark = pytest.mark.browser

CONNECTION = "document.getElementById('connection').innerText"


def test_tabs_share_one_stream(experiment: Page, server: Server, runner: FakeRunner) -> None:
    first, second = experiment, experiment.tab()
    first.wait(f"{CONNECTION} === '● Live'")
    second.watch()
    open_experiment(second, server.url("experiments/adult"))
    second.wait(f"{CONNECTION} === '● Live'")
    runner.train("c000", 0.01)
    for page in (first, second):
        wait_for_cell(page, "c000", "Epochs", "7 of 9")
    assert second.opened_streams == 0
    # The other tab reads the stream once the first one is closed, and misses nothing.
    first.visit("about:blank?closed")
    runner.train("c000", 0.02)
    wait_for_cell(second, "c000", "Epochs", "8 of 9")
    second.wait(f"{CONNECTION} === '● Live'")
    assert second.opened_streams == 1
    runner.train("c000", 0.03)
    wait_for_cell(second, "c000", "val_loss", "0.03")
    epochs(second, 9)
    second.close_tab()


def epochs(page: Page, number: int) -> None:
    """Open the details of the first configuration: it has each epoch once."""
    page.click("#configurations tr[data-id=c000] .link")
    page.wait("document.querySelector('dialog .history') !== null")
    rows = "[...document.querySelectorAll('dialog .history tbody th')].map(each => each.innerText)"
    assert page.value(rows) == [str(epoch + 1) for epoch in range(number)]
    page.press("Escape")


@pytest.mark.parametrize("request_", ["metrics", "configurations"])
def test_an_epoch_between_two_requests_is_not_lost(experiment: Page, runner: FakeRunner, request_: str) -> None:
    """Its curve and its configuration are read at different times."""
    page = experiment
    page.wait(f"{CONNECTION} === '● Live'")
    page.value(
        "const fetch_ = window.fetch; window.fetch = async (url, options) => {"
        f" if (url.includes('/{request_}') && !window.go) await new Promise((done) => {{ window.go = done; }});"
        " return fetch_(url, options); }; 1"
    )
    runner.train("c000", 0.01)
    page.wait("window.go !== undefined")
    runner.train("c000", 0.02)
    page.value("window.go()")
    wait_for_cell(page, "c000", "Epochs", "8 of 9")
    wait_for_cell(page, "c000", "val_loss", "0.02")
    epochs(page, 8)


def test_a_page_catches_up_after_the_server_was_away(experiment: Page, server: Server, runner: FakeRunner) -> None:
    page = experiment
    page.wait(f"{CONNECTION} === '● Live'")
    server.stop()
    page.wait(f"{CONNECTION}.includes('Reconnecting')")
    page.click(button("c000", "stop"))
    page.wait("document.querySelector('dialog [role=alert]').innerText.includes('does not answer')")
    page.press("Escape")
    server.start()
    runner.train("c000", 0.01, 0.02)
    page.wait(f"{CONNECTION} === '● Live'")
    wait_for_cell(page, "c000", "val_loss", "0.02")
    epochs(page, 8)
    assert [each for each in page.problems if "net::ERR_" not in each] == []
    page.problems.clear()


def test_a_page_catches_up_after_it_was_offline(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.offline()
    runner.train("c000", 0.01)
    runner.train("c000", 0.02)
    page.offline(offline=False)
    wait_for_cell(page, "c000", "val_loss", "0.02")
    epochs(page, 8)
    assert [each for each in page.problems if "net::ERR_" not in each] == []
    page.problems.clear()


@pytest.fixture
def proxied_server(tmp_path: Path) -> Iterator[Server]:
    port, prefix = free_port(), "/user/ada/proxy/8765"
    server = Server(tmp_path, root_path=prefix, allowed_hosts=(f"127.0.0.1:{port}",))
    server.start()
    with proxied(port, server.port, prefix, strip=True):
        yield server
    server.stop()


def test_pages_work_below_a_path_prefix(browser: Page, proxied_server: Server) -> None:
    """The proxy does not find paths outside, which is an error in the console."""
    server = proxied_server
    page = browser.another_user()
    page.watch()
    runner = server.runner()
    runner.start("c000", {"lr": 0.1})
    runner.train("c000", 0.5)
    page.visit(server.link())
    page.wait("document.querySelector('#experiments tbody a') !== null")
    page.click("#experiments tbody a")
    page.wait("document.querySelector('[data-ready]') !== null")
    runner.train("c000", 0.25)
    wait_for_cell(page, "c000", "val_loss", "0.25")
    page.click(button("c000", "stop"))
    confirm(page, "c000 keeps 2 finished epochs")
    runner.apply_all()
    wait_for_cell(page, "c000", "Status", "■ stopped")
    assert page.value(cell("c000", "Reason")) == "stopped by the user"
    assert count(page, "#curves canvas") == 1
    assert page.problems == []
    page.close_tab()
