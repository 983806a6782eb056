"""Pages by keyboard, and what screen readers and people with low vision get."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from accessibility import violations
from pages import button, confirm, count, ids, wait_for_cell

if TYPE_CHECKING:
    from browser import Page
    from fake_runner import FakeRunner
    from steering_server import Server

pytestmark = pytest.mark.browser

FOCUS = "document.activeElement"
# Texts that are wider than their cells and have no title with all of it, and elements outside the window.
CUT = """[...document.querySelectorAll('main *')].filter(each => each.checkVisibility()
  && !each.closest('.scrolls, .visually-hidden, canvas, .uplot, [hidden]')
  && (each.getBoundingClientRect().right > innerWidth + 1 || each.scrollWidth > each.clientWidth + 1 && each.clientWidth
    && ['P', 'H1', 'H2', 'H3', 'BUTTON', 'SPAN', 'LI'].includes(each.tagName))
).map(each => each.outerHTML.slice(0, 120))"""


def test_checks_find_what_they_look_for(page: Page) -> None:
    page.value(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<button></button><input><h4>a</h4>"
        "<p class=pale>a</p><i id=x></i><i id=x></i>'); document.querySelector('.pale').style.color = '#999'; 1"
    )
    rules = {each.partition(":")[0] for each in violations(page)}
    assert rules == {"accessible name", "label", "order of headings", "contrast of text", "unique id"}


def test_pages_and_dialogs_have_no_violations(experiment: Page, server: Server, runner: FakeRunner) -> None:
    page = experiment
    page.click(button("c000", "stop"))
    confirm(page, "saves about")
    page.wait("document.querySelectorAll('#pending li').length === 1")
    assert violations(page) == []
    runner.apply_all()
    page.wait("document.querySelectorAll('#history tbody tr').length === 1")
    assert violations(page) == []
    page.click(button("c001", "clone"))
    page.wait("document.querySelector('dialog .effect p') !== null")
    page.write("no number")
    page.wait("document.querySelector('dialog [aria-invalid]') !== null")
    assert violations(page) == []
    page.press("Escape")
    page.click("#configurations tr[data-id=c004] .link")
    page.wait("document.querySelector('dialog .traceback') !== null")
    assert violations(page) == []
    page.visit(server.url())
    page.wait("document.querySelector('#experiments tbody a') !== null")
    assert violations(page) == []


def test_the_table_is_one_stop_of_the_tab_key(experiment: Page) -> None:
    page = experiment
    page.value("document.getElementById('export').focus()")
    page.press("Tab")
    assert page.value(f"{FOCUS}.closest('table').id") == "configurations"
    assert count(page, "#configurations [tabindex='0']") == 1
    page.press("Tab")
    assert page.value(f"{FOCUS}.closest('#configurations') === null")
    page.press("Shift+Tab", "ArrowDown")
    assert page.value(f"{FOCUS}.innerText") == ids(page)[0] == "c000"
    page.press("ArrowDown", "ArrowRight")
    assert page.value(f"{FOCUS}.innerText") == "▶ running"
    page.press("ArrowRight")
    assert page.value(f"{FOCUS}.ariaLabel") == "Stop c001"
    page.press("End")
    assert page.value(f"{FOCUS}.innerText") == "drawn at random"
    page.press("Home", "PageDown")
    assert page.value(f"{FOCUS}.innerText") == "c005"
    page.press("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")
    assert page.value(f"{FOCUS}.innerText") == "Configuration"
    page.press("Enter")
    assert ids(page)[0] == "c000"
    assert page.value(f"{FOCUS}.closest('th').ariaSort") == "ascending"


def test_a_configuration_is_stopped_by_keyboard(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.value("document.getElementById('export').focus()")
    page.press("Tab", "ArrowDown", "ArrowRight", "ArrowRight", "Enter")
    page.wait("document.querySelector('dialog .effect p') !== null")
    assert page.value(f"{FOCUS}.innerText") == "Stop c000"
    page.press("Tab", "Tab", "Tab")
    assert page.value(f"{FOCUS} === document.body || {FOCUS}.closest('dialog') !== null"), "the focus stays inside"
    page.press("Escape")
    page.wait("document.querySelector('dialog') === null")
    assert page.value(f"{FOCUS}.ariaLabel") == "Stop c000"
    page.press("Enter")
    page.wait("document.querySelector('dialog .effect p') !== null")
    page.press("Enter")
    page.wait("document.querySelector('dialog') === null")
    assert page.value(f"{FOCUS}.ariaLabel") == "Stop c000"
    assert [each["command"]["trial"] for each in runner.commands()] == ["c000"]


def test_the_focus_follows_a_row_that_moves(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    page.value(f"document.querySelector('{button('c005', 'pause')}').focus()")
    runner.train("c005", 0.001)
    wait_for_cell(page, "c005", "best", "0.001")
    assert ids(page)[0] == "c005"
    assert page.value(f"{FOCUS}.ariaLabel") == "Pause c005"


def test_changes_are_announced(experiment: Page, runner: FakeRunner) -> None:
    page = experiment
    for selector in ("#notice", "#connection", "#configurations-count", "#gantt-note"):
        assert page.value(f"document.querySelector('{selector}').getAttribute('role')") == "status", selector
    assert page.value("document.getElementById('problem').getAttribute('role')") == "alert"
    page.click(button("c000", "stop"))
    confirm(page, "saves about")
    page.wait("document.getElementById('notice').innerText === 'Stop c000: pending.'")
    runner.apply_all()
    page.wait("document.getElementById('notice').innerText === 'Stop c000: applied.'")


def test_a_status_has_words(experiment: Page) -> None:
    states = experiment.value("[...document.querySelectorAll('td.status')].map(each => each.innerText)")
    assert len(states) == 6
    assert all(re.search(r"[a-z]{4}", state) for state in states)


@pytest.mark.parametrize("width", [1440, 1024, 500, 320])
def test_nothing_is_cut(experiment: Page, server: Server, width: int) -> None:
    experiment.visit(server.url("experiments/adult"), width)
    experiment.wait("document.querySelector('[data-ready]') !== null")
    assert experiment.value(CUT) == []
    experiment.click(button("c000", "clone"))
    experiment.wait("document.querySelector('dialog .effect p') !== null")
    assert experiment.value(CUT) == []
