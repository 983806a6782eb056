"""Experiments that are launched, narrowed and compared from the pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from accessibility import violations
from fake_pool import FakePool
from pages import cell, open_experiment, wait_for_cell
from steering_server import RUNNER_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from browser import Page
    from steering_server import Server

pytestmark = pytest.mark.browser


@pytest.fixture
def pool(server: Server) -> Iterator[FakePool]:
    pool = FakePool(server.port, RUNNER_TOKEN)
    yield pool
    pool.close()


def fill(page: Page, **texts: str) -> None:
    """Write into fields by their ids."""
    for name, text in texts.items():
        page.value(f"document.getElementById('{name}').focus()")
        page.write(text)


def text(name: str) -> str:
    return f"document.getElementById('{name}').innerText.trim()"


def show_plan(page: Page) -> None:
    page.click("#plan")
    page.wait("document.getElementById('start').ariaDisabled === null")


def test_an_experiment_is_launched_and_drilled_down(page: Page, server: Server, pool: FakePool) -> None:
    page.visit(server.url())
    page.click("a[href$='/launch']")
    page.wait("document.getElementById('launch')?.dataset.ready === 'true'")
    assert violations(page) == []
    page.click("#plan")
    page.wait("document.activeElement.id === 'run'")
    assert page.value(text("run-error")).startswith("name must be")
    assert "run-error" in page.value("document.activeElement.getAttribute('aria-describedby')")
    assert pool.answered == []
    fill(page, run="adult-1", table="/data/adult.csv")
    page.click("#read-columns")
    page.wait(f"{text('table-error')} !== ''")
    fill(page, table="/data/adult.parquet")
    page.click("#read-columns")
    page.wait("document.querySelectorAll('#columns tbody tr').length === 4")
    assert page.value("document.querySelectorAll('#columns tbody th')[1].innerText") == "hours <b>"
    page.click("[aria-label='image is a feature']")
    # A range is refused by the pool for a grid search, beside the row that it names.
    page.value("document.querySelector('#space select').value = 'uniform'")
    page.value("document.querySelector('#space select').dispatchEvent(new Event('change'))")
    page.value("document.getElementById('procedure').value = 'grid'")
    page.click("#plan")
    page.wait("document.querySelector('#space .field-error').innerText.includes('must be a list for a grid search')")
    assert violations(page) == []
    page.value("document.getElementById('procedure').value = 'random'")
    show_plan(page)
    assert "at least 1 h 30 min" in page.value(text("plan-facts"))
    fill(page, seed="7")
    page.wait("document.getElementById('start').ariaDisabled === 'true'")
    show_plan(page)
    assert violations(page) == []
    page.click("#start")
    page.wait("location.pathname.endsWith('/experiments/adult-1')")
    wait_for_cell(page, "c003", "val_loss", "0.6")
    launched = pool.answered[-1][1]
    assert launched["settings"]["seed"] == 7
    assert (launched["feature_columns"], launched["label_columns"]) == (["image"], ["label"])
    assert launched["source"]["builtin"]

    page.click("a[href$='/drill-down']")
    page.wait("document.getElementById('launch')?.dataset.ready === 'true'")
    narrowed = "[...document.querySelectorAll('#space input')].map(each => each.value)"
    page.wait(f"{narrowed}.length > 0")
    assert page.value(narrowed)[0] == "lr"
    assert violations(page) == []
    show_plan(page)
    page.click("#start")
    page.wait("location.pathname.endsWith('/experiments/adult-1-2')")
    assert pool.answered[-1][1]["source"] == {"run": "adult-1"}
    assert set(pool.answered[-1][1]["search_space"]) == {"lr", "act"}
    page.wait(f"{cell('c003', 'val_loss')} === '0.6'")


def test_experiments_are_compared(page: Page, server: Server) -> None:
    for run, seed in (("one", 0), ("two", 1)):
        runner = server.runner(run, parameters={"seed": seed}, tensorboard="/data/<b>")
        runner.start_all({f"c{place:03}": {"lr": 0.1 / 10**place, "act": "ab"[place % 2]} for place in range(4)})
        for place in range(4):
            runner.train(f"c{place:03}", 0.9 - 0.2 * place)
    runner.start("c004", {"lr": 0.5, "act": "b"}, source={"trial": "c003", "epoch": 1})
    open_experiment(page, server.url("experiments/two"))
    lineage = "[...document.querySelectorAll('#lineage button')].map(each => each.innerText)"
    assert page.value(lineage) == ["c003", "c004"]
    assert "lr = 0.5 instead of 0.0001" in page.value(text("lineage"))
    assert page.value(text("tensorboard")).endswith("tensorboard --logdir /data/<b>")
    page.visit(server.url("compare?runs=one,two"))
    page.wait("document.body.dataset.ready === 'true'")
    rows = "[...document.querySelectorAll('#{}  tbody tr')].map(row => [...row.cells].map(each => each.innerText))"
    assert page.value(rows.format("differences")) == [["seed", "0", "1"]]
    results = page.value(rows.format("results"))
    assert [row[0] for row in results] == ["one", "two"]
    assert results[0][3:5] == ["val_loss 0.3", "c003"]
    assert page.value(rows.format("importance"))[0][0] in {"lr", "act"}
    label = page.value("document.getElementById('best-epochs').ariaLabel")
    assert "one 0.3 after 4" in label
    assert page.value("document.querySelectorAll('#best-epochs svg, #importance-chart svg').length") >= 2
    assert violations(page) == []
    # A machine without a GPU draws with software, which Chromium warns of.
    page.problems[:] = [problem for problem in page.problems if "WebGL" not in problem]
    page.click("summary")
    page.value(f"document.querySelector({json.dumps('#choices input[value=one]')}).click()")
    page.click("#choice button")
    page.wait("document.querySelectorAll('#results tbody tr').length === 1")
    assert page.value("location.search") == "?runs=two"
