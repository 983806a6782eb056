"""Commands from the page: their effect, conflicts, withdrawal, and exactly one command for each confirmation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pages import button, cell, confirm, count, ids, open_experiment, wait_for_cell

if TYPE_CHECKING:
    from browser import Page
    from fake_runner import FakeRunner
    from steering_server import Server

pytestmark = pytest.mark.browser

ALERT = "document.querySelector('dialog [role=alert]').innerText"
NOTICE = "document.getElementById('notice').innerText"
HISTORY = """[...document.querySelectorAll('#history tbody tr')].map(row =>
  `${row.cells[1].innerText} ${row.cells[2].innerText}`)"""


def fill(page: Page, label: str, text: str) -> None:
    """Write into the field of a dialog with a label."""
    field = f"[...document.querySelectorAll('dialog label')].find(each => each.innerText === {json.dumps(label)})"
    page.value(f"document.getElementById({field}.htmlFor).focus()")
    page.write(text)


def test_a_stop_shows_its_effect_before_it_is_sent(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c001", "stop"))
    page.wait("document.querySelector('dialog .effect').innerText.includes('4 granted epochs are not trained')")
    assert page.value("document.querySelector('dialog h2').innerText") == "Stop c001"
    assert runner.commands() == [], "nothing is sent before the confirmation"
    confirm(page, "saves about")
    wait_for_cell(page, "c001", "Status", "▶ running, stop pending")
    page.wait("document.getElementById('pending').innerText.startsWith('… Stop c001')")
    assert runner.apply_all() == ["stop"]
    wait_for_cell(page, "c001", "Status", "■ stopped")
    assert page.value(cell("c001", "Reason")) == "stopped by the user"
    page.wait(f"{NOTICE} === 'Stop c001: applied.'")
    assert page.value(HISTORY) == ["Stop c001 ✓ applied"]
    assert count(page, "#pending li") == 0
    assert page.value(f"document.querySelector('{button('c001', 'stop')}').ariaDisabled") == "true"


def test_a_pending_command_is_withdrawn(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c000", "stop"))
    confirm(page, "c000 keeps 6 finished epochs")
    page.click("#pending button")
    page.wait(f"{HISTORY}[0] === 'Stop c000 ↶ withdrawn'")
    assert runner.commands() == []
    wait_for_cell(page, "c000", "Status", "▶ running")
    assert page.value("document.activeElement.id") == "commands-heading"


def test_a_clone_with_another_rate_diverges_from_its_donor(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c000", "clone"))
    page.wait("document.querySelector('dialog .effect p') !== null")
    fill(page, "lr", "0.001")
    fill(page, "Epochs to train", "3")
    confirm(page, "lr = 0.001 instead of 0.1", "3 epochs")
    assert [each["command"] for each in runner.commands()] == [
        {"command": "clone", "trial": "c000", "params": {"lr": 0.001}, "epoch": None, "epochs": 3}
    ]
    runner.apply_all()
    wait_for_cell(page, "c006", "Parent", "c000")
    assert page.value(cell("c006", "Owner")) == "ada"
    assert page.value(cell("c006", "lr")) == "0.001"
    runner.train("c006", 0.05)
    wait_for_cell(page, "c006", "best", "0.05")
    assert ids(page)[0] == "c006"
    assert page.value("document.querySelector('#legend li').innerText").split() == ["c006", "0.05"]


def test_the_curve_of_a_clone_begins_at_its_donor(experiment: Page) -> None:
    module = "import('/static/cerebro_spark.steering.pages/curves.js')"
    trained = {"a": {"epochs": [1, 2, 3], "values": [5, 4, 3]}, "b": {"epochs": [1], "values": [1]}}
    parents = {"b": {"id": "a", "epoch": 2}, "c": {"id": "b", "epoch": 1}}
    curves = f"new Map(Object.entries({json.dumps({**trained, 'c': {'epochs': [], 'values': []}})}))"
    known = f"{{curves: {curves}, parents: new Map(Object.entries({json.dumps(parents)}))}}"
    columns = experiment.value(f"{module}.then(({{ Curves }}) => Curves.prototype.columns(['a', 'b', 'c'], {known}))")
    assert columns == [[1, 2, 3], [5, 4, 3], [None, 4, 1], [None, None, 1]]


def test_fields_that_are_not_valid_are_named(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c000", "clone"))
    fill(page, "lr", "fast")
    page.wait("document.querySelector('dialog .field-error').innerText.includes('must be a number')")
    page.click("dialog button[type=submit]")
    assert page.value("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert page.value("document.activeElement.value") == "fast"
    fill(page, "lr", "0.5")
    fill(page, "Epochs to train", "0")
    page.wait("document.querySelectorAll('dialog [aria-invalid]').length === 1")
    page.press("Escape")
    assert runner.commands() == []


def test_a_configuration_is_added(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click("#add")
    page.wait("document.querySelector('dialog .effect p') !== null")
    fill(page, "hidden", "512")
    confirm(page, "9 epochs")
    runner.apply_all()
    wait_for_cell(page, "c006", "hidden", "512")
    assert page.value(cell("c006", "Owner")) == "ada"


def test_a_finished_configuration_trains_on(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c001", "stop"))
    confirm(page, "saves about")
    runner.apply_all()
    wait_for_cell(page, "c001", "Status", "■ stopped")
    page.click(button("c001", "extend"))
    page.wait("document.querySelector('dialog .effect p') !== null")
    fill(page, "Additional epochs", "3")
    confirm(page, "for 3 more epochs")
    assert [each["command"] for each in runner.commands()][-1] == {"command": "extend", "trial": "c001", "epochs": 3}
    assert runner.apply_all() == ["extend"]
    wait_for_cell(page, "c001", "Status", "▶ running")


def test_a_pause_becomes_a_resume(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c000", "pause"))
    confirm(page, "pauses after its unit in flight")
    runner.apply_all()
    wait_for_cell(page, "c000", "Status", "❚❚ paused")
    page.click(button("c000", "resume"))
    confirm(page, "continues")
    runner.apply_all()
    wait_for_cell(page, "c000", "Status", "▶ running")
    page.click(button("c000", "prioritise"))
    confirm(page, "assigned before")
    runner.apply_all()
    wait_for_cell(page, "c000", "Status", "▶ running, prioritised")


def test_many_configurations_are_stopped_at_once(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c001", "stop"))
    confirm(page, "saves about")
    page.wait("document.querySelectorAll('#pending li').length === 1")
    page.click("#bulk-apply")
    confirm(page, "stop 4 configurations: c000, c002, c003, c005.", "saves about", "c001 is left out")
    page.wait("document.querySelectorAll('#pending li').length === 5")
    assert sorted(each["command"]["trial"] for each in runner.commands()) == ["c000", "c001", "c002", "c003", "c005"]


def test_the_search_is_ended(experiment: Page, runner: FakeRunner) -> None:
    experiment.click("#end")
    confirm(experiment, "epochs")
    assert [each["command"] for each in runner.commands()] == [{"command": "end"}]


def test_a_second_user_learns_what_the_first_did(experiment: Page, server: Server, runner: FakeRunner) -> None:
    page, other = experiment, experiment.another_user()
    other.visit(server.link("grace"))
    open_experiment(other, server.url("experiments/adult"))
    page.click(button("c000", "stop"))
    page.wait("document.querySelector('dialog .effect p') !== null")
    # The first page misses what happens, because its dialog was opened before.
    page.offline()
    other.click(button("c000", "pause"))
    confirm(other, "pauses")
    page.offline(offline=False)
    page.click("dialog button[type=submit]")
    page.wait(f"{ALERT}.includes('grace')")
    page.wait("document.querySelector('dialog button[type=submit]').innerText === 'Stop c000 anyway'")
    assert [each["user"] for each in runner.commands()] == ["grace"]
    confirm(page)
    assert [(each["user"], each["command"]["command"]) for each in runner.commands()] == [
        ("grace", "pause"),
        ("ada", "stop"),
    ]
    # The browser writes these: the network was cut, and the server replied 409.
    assert [each for each in page.problems if "net::ERR_" not in each and "409" not in each] == []
    page.problems.clear()
    other.close_tab()


def test_a_repeated_confirmation_is_one_command(experiment: Page, server: Server, runner: FakeRunner) -> None:
    """The reply to the first one is lost; the page sends the key of the request again."""
    page = experiment
    page.value(
        "const fetch_ = window.fetch; let lost = 0; window.fetch = async (url, options) => {"
        " const reply = await fetch_(url, options);"
        " if (options?.method === 'POST' && String(url).endsWith('/commands') && !lost++) throw new TypeError('lost');"
        " return reply; }; 1"
    )
    page.click(button("c000", "stop"))
    page.wait("document.querySelector('dialog .effect p') !== null")
    page.click("dialog button[type=submit]")
    page.wait(f"{ALERT}.includes('does not answer')")
    confirm(page)
    assert len(runner.commands()) == 1
