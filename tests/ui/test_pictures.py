"""Pictures of the documentation; ``PICTURES`` is the folder that they are written to, by default the test's own."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pages import button, confirm, open_experiment, wait_for_cell

if TYPE_CHECKING:
    from browser import Page
    from fake_runner import FakeRunner
    from steering_server import Server

pytestmark = pytest.mark.browser

RATES = (0.3, 0.1, 0.05, 0.03, 0.01, 0.003, 0.001, 0.0003)


def loss(place: int, epoch: int) -> float:
    """Compute a loss that falls faster with the rate, and ends higher for the extreme ones."""
    rate = RATES[place]
    return 0.31 + 0.05 * abs(math.log10(rate / 0.03)) + 0.4 * math.exp(-epoch * (0.15 + rate * 6)) * (1 + place % 3 / 9)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(os.environ.get("PICTURES", tmp_path))


@pytest.fixture
def running(server: Server) -> FakeRunner:
    """A search with eight rates, of which the second half was stopped early."""
    runner = server.runner(epochs=9)
    names = [f"c{place:03}" for place in range(len(RATES))]
    sizes = (64, 128, 256, 64, 128, 256, 64, 128)
    params = [{"lr": rate, "hidden": size} for rate, size in zip(RATES, sizes, strict=True)]
    runner.start_all(dict(zip(names, params, strict=True)))
    for epochs in (range(1, 4), range(4, 9)):
        for first in range(0, len(RATES) if epochs.start == 1 else 4, 2):
            for epoch in epochs:
                runner.train_together({names[place]: loss(place, epoch) for place in (first, first + 1)})
        if epochs.start == 1:
            for rank, name in enumerate(names[4:7], 5):
                runner.order([], [{"decision": "stop", "trial": name, "reason": f"rank {rank} of 8 after 3 epochs"}])
            runner.end_trial(names[7], "raised", "Traceback (most recent call last):\nValueError: bad batch")
    return runner


def test_pictures_of_the_pages(page: Page, server: Server, running: FakeRunner, folder: Path) -> None:
    open_experiment(page, server.url("experiments/adult"))
    page.click(button("c000", "stop"))
    confirm(page, "saves about")
    running.apply_all()
    wait_for_cell(page, "c000", "Status", "■ stopped")
    page.click(button("c002", "pause"))
    confirm(page, "pauses")
    page.click(button("c003", "clone"))
    page.wait("document.querySelector('dialog .effect p') !== null")
    page.value("scrollTo(0, 0)")
    page.write("0.02")
    epoch = "[...document.querySelectorAll('dialog select')].at(-1)"
    page.value(f"{epoch}.value = '4'; {epoch}.dispatchEvent(new Event('input', {{ bubbles: true }}))")
    page.wait("document.querySelector('dialog .effect').innerText.includes('after epoch 4')")
    page.picture(folder / "steering_clone.png", whole=False)
    confirm(page)
    (clone,) = [each for each in running.commands() if each["command"]["command"] == "clone"]
    assert (clone["command"]["params"], clone["command"]["epoch"]) == ({"lr": 0.02}, 4)
    running.apply(clone)
    wait_for_cell(page, "c008", "Parent", "c003")
    for epoch in range(1, 4):
        running.train("c008", loss(3, 4) - 0.05 * epoch**0.5)
    wait_for_cell(page, "c008", "Epochs", "3 of 9")
    page.wait("document.getElementById('gantt-note').innerText.startsWith('188 units')")
    page.value("document.getElementById('notice').textContent = ''")
    page.value("scrollTo(0, 0)")
    page.picture(folder / "steering_experiment.png")
    for name in ("clone", "experiment"):
        assert (folder / f"steering_{name}.png").stat().st_size > 10_000
