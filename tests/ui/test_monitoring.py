"""Pages follow a run: curves, table, units, filters, and export."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

import pytest
from pages import button, cell, count, ids, open_experiment, wait_for_cell
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from browser import Page
    from fake_runner import FakeRunner
    from steering_server import Server

pytestmark = pytest.mark.browser

TEXT = "<img src=x onerror=alert(1)>"


def test_the_list_shows_a_run_as_it_starts(page: Page, server: Server) -> None:
    page.wait("!document.getElementById('empty').hidden")
    runner = server.runner("census")
    page.wait("document.querySelector('#experiments tbody')?.innerText.includes('census')")
    runner.start("c000", {"lr": 0.1})
    runner.train("c000", 0.5)
    page.wait("document.querySelector('#experiments tbody tr').cells[5].innerText === '0.5'")
    page.click("#experiments tbody a")
    page.wait("location.pathname === '/experiments/census'")
    runner.end()


def test_an_epoch_appears_in_curves_table_and_units(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    assert page.value(cell("c000", "Epochs")) == "6 of 9"
    assert count(page, "#curves canvas") == 1
    legend = "[...document.querySelectorAll('#legend li')].map(each => each.innerText.replace(/\\s+/g, ' '))"
    assert len(page.value(legend)) == 6
    runner.train("c000", 0.0123)
    wait_for_cell(page, "c000", "Epochs", "7 of 9")
    assert page.value(cell("c000", "val_loss")) == "0.0123"
    page.wait(f"{legend}[0] === 'c000 0.0123'")
    assert "best first: c000 with 0.0123" in page.value("document.getElementById('curves').getAttribute('aria-label')")
    page.wait("document.querySelector('#workers tbody').innerText.includes('epoch 7')")
    page.value("document.getElementById('gantt').focus()")
    page.press("End")
    assert "c000: evaluated epoch 7 on shard" in page.value("document.getElementById('gantt-note').innerText")


def test_curves_differ_by_more_than_colour(experiment: Page, server: Server) -> None:
    """Fifty curves have fifty pairs of a colour and a dash."""
    runner = server.runner("many")
    runner.start_all({f"c{place:03}": {"lr": place} for place in range(70)})
    for place in range(70):
        runner.train(f"c{place:03}", 1.0 + place)
    open_experiment(experiment, server.url("experiments/many"))
    strokes = experiment.value(
        "[...document.querySelectorAll('#legend line')].map(each => each.outerHTML.replace(/[xy][12]=\"\\d+\"/g, ''))"
    )
    assert len(strokes) == 50
    assert len(set(strokes)) == 50
    assert "50 best of 70" in experiment.value("document.getElementById('curves-note').innerText")


def test_another_metric_and_a_log_scale(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    runner.train("c005", -0.5, "nan")
    wait_for_cell(page, "c005", "val_loss", "NaN")
    page.click("#logarithmic")
    page.wait("document.getElementById('curves-note').innerText.includes('not positive')")
    page.value("metric.value = 'val_accuracy'; metric.dispatchEvent(new Event('change'))")
    wait_for_cell(page, "c000", "val_accuracy", "0.8988")
    assert page.value(cell("c000", "highest")) == "0.8988"
    assert ids(page)[:2] == ["c005", "c000"]


def test_rows_are_sorted_and_filtered(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    assert ids(page)[0] == "c000"
    lr = "[...document.querySelectorAll('#configurations thead button')].find(each => each.innerText === 'lr')"
    page.value(f"{lr}.click()")
    assert ids(page) == [f"c{place:03}" for place in reversed(range(6))]
    assert page.value(f"{lr}.closest('th').ariaSort") == "ascending"
    page.value(f"{lr}.click()")
    assert ids(page) == [f"c{place:03}" for place in range(6)]
    page.value("document.getElementById('filter-status').focus()")
    page.press("ArrowDown")
    assert ids(page) == ["c004"]
    assert page.value("document.getElementById('configurations-count').innerText") == "1 of 6 configurations"
    page.value("document.getElementById('filter-status').value = ''")
    page.value("document.getElementById('filter-text').focus()")
    page.write('hidden":48')
    wait_for_cell(page, "c002", "hidden", "48")
    page.wait("document.querySelector('#configurations tr[data-id=c004]') === null")
    assert ids(page) == ["c002"]


def test_names_params_and_tracebacks_are_text(experiment: Page, server: Server, runner: FakeRunner) -> None:
    page = experiment
    runner.start("c006", {"lr": 0.1, TEXT: TEXT}, reason=TEXT)
    wait_for_cell(page, "c006", TEXT, TEXT)
    page.click("#configurations tr[data-id=c004] .link")
    page.wait(f"document.querySelector('dialog .traceback').innerText.includes('ValueError: {TEXT}')")
    page.press("Escape")
    page.click("#configurations tr[data-id=c006] .link")
    page.wait("document.querySelector('dialog .details') !== null")
    assert page.value("document.querySelector('dialog').innerText").count(TEXT) == 3
    assert count(page, "img") == 0


def test_the_ids_of_a_hostile_runner_are_text(page: Page, server: Server) -> None:
    runner = server.runner("hostile", metric=TEXT, procedure=TEXT)
    runner.start(TEXT, {"lr": 0.1})
    runner.train(TEXT, 0.5)
    open_experiment(page, server.url("experiments/hostile"))
    assert TEXT in page.value("document.getElementById('configurations').innerText")
    assert TEXT in page.value("document.getElementById('summary').innerText")
    assert count(page, "img") == 0


def test_a_thousand_configurations_render_a_few_rows(page: Page, server: Server) -> None:
    runner = server.runner("large")
    names = [f"c{place:03}" for place in range(1000)]
    runner.start_all({name: {"lr": place} for place, name in enumerate(names)})
    for epoch in range(3):
        results = [
            {"result": "epoch", "trial": name, "epoch": epoch + 1, "metrics": {"val_loss": place + math.exp(-epoch)}}
            for place, name in enumerate(names)
        ]
        runner.order(results)
    open_experiment(page, server.url("experiments/large"))
    page.wait("document.getElementById('configurations-count').innerText === '1000 configurations'")
    assert len(ids(page)) < 40
    assert count(page, "#legend li") == 50
    page.click("#configurations tr[data-id=c000] .link")
    page.press("Escape")
    page.wait("document.querySelector('dialog') === null")
    page.value("document.getElementById('configurations-scroller').scrollTop = 1e6")
    page.wait("document.querySelector('#configurations tr[data-id=c999]') !== null")
    assert len(ids(page)) < 40
    row = "document.querySelector('#configurations tr[data-id=c999]')"
    assert page.value(f"{row}.getAttribute('aria-rowindex')") == "1001"
    bottom = "document.getElementById('configurations-scroller').getBoundingClientRect().bottom"
    assert page.value(f"{row}.getBoundingClientRect().bottom <= {bottom} + 1"), "the last row is visible"
    assert page.value("document.activeElement !== document.body"), "the focus stays in the table"


def test_the_export_has_the_rows_that_are_shown(experiment: Page, runner: FakeRunner, tmp_path: Path) -> None:
    page = experiment
    page.allow_downloads(tmp_path)
    runner.start("c006", {"lr": 0.1, "hidden": 16, "note": '=HYPERLINK("x"), "y"'}, reason="+1")
    wait_for_cell(page, "c006", "Status", "▶ running")
    page.value("document.getElementById('filter-text').focus()")
    page.write("c00")
    page.click("#export")
    until((tmp_path / "adult.csv").exists)
    rows = list(csv.DictReader((tmp_path / "adult.csv").read_text("utf-8-sig").splitlines()))
    assert [row["configuration"] for row in rows] == ["c000", "c001", "c002", "c003", "c004", "c005", "c006"]
    assert float(rows[0]["best val_loss"]) == pytest.approx(0.2 + math.exp(-6))
    assert rows[6]["note"] == '\'=HYPERLINK("x"), "y"', "a spreadsheet does not compute it"
    assert rows[6]["reason"] == "'+1"


def test_a_run_whose_journal_began_anew_is_shown_anew(experiment: Page, runner: FakeRunner, server: Server) -> None:
    again = server.runner(fingerprint="digest of another order")
    again.start("c000", {"lr": 0.5})
    again.train("c000", 0.7)
    wait_for_cell(experiment, "c000", "Epochs", "1 of 9")
    assert experiment.value(cell("c000", "val_loss")) == "0.7"
    assert ids(experiment) == ["c000"]


def test_the_end_of_a_run_is_shown_with_its_error(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    assert page.value("document.getElementById('run-error').hidden")
    runner.end(f"RunError: {TEXT}")
    page.wait("document.getElementById('summary').innerText.includes('failed')")
    assert page.value("document.getElementById('run-error').innerText") == f"RunError: {TEXT}"
    assert count(page, "img") == 0


def test_a_run_without_configurations(page: Page, server: Server) -> None:
    server.runner("early", parameters={"trainer": TEXT, "seed": 3})
    open_experiment(page, server.url("experiments/early"))
    assert page.value("document.getElementById('curves-note').innerText") == "No epoch has ended yet."
    page.click("#add")
    page.wait("document.getElementById('notice').innerText.includes('No configuration has started yet')")
    page.click("summary")
    assert TEXT in page.value("document.getElementById('settings').innerText")


def test_an_unknown_run_is_named(page: Page, server: Server) -> None:
    page.wait("document.getElementById('connection').innerText === '● Live'")
    page.visit(server.url("experiments/adlut"))
    page.wait("document.getElementById('problem').innerText.includes(\"got 'adlut'\")")
    assert page.opened_streams == 1, "the list of experiments had one"
    assert [each for each in page.problems if "404" not in each] == []
    page.problems.clear()


def test_controls_say_why_a_viewer_cannot_use_them(browser: Page, server: Server, runner: FakeRunner) -> None:
    page = browser.another_user()
    page.visit(server.link("grace", "viewer"))
    open_experiment(page, server.url("experiments/adult"))
    control = f"document.querySelector('{button('c000', 'stop')}')"
    assert page.value(f"{control}.ariaDisabled") == "true"
    assert "editor" in page.value(f"{control}.ariaLabel")
    page.value(f"{control}.click()")
    assert count(page, "dialog") == 0
    page.close_tab()
