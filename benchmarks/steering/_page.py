"""Page of an experiment with 1,000 configurations in Chromium, and 20 viewers of one server."""

from __future__ import annotations

import math
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cerebro_spark.steering import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PageTimes", "measure_page", "measure_viewers"]

_SUPPORT = Path(__file__).parents[2] / "tests" / "support"


@dataclass(frozen=True, slots=True)
class PageTimes:
    """Times of a page.

    Parameters
    ----------
    usable_s : float
        Seconds from the request until the table and the curves are there.
    update_s : float
        Longest task of the page for an epoch of a configuration, in seconds.
    shown_s : float
        Seconds from the report of an epoch until the table shows it.
    megabytes : float
        Heap of the page.
    """

    usable_s: float
    update_s: float
    shown_s: float
    megabytes: float


def _support() -> None:
    if str(_SUPPORT) not in sys.path:
        sys.path.insert(0, str(_SUPPORT))


def _fill(runner: Any, configurations: int, epochs: int) -> None:
    params = {
        f"c{place:03}": {f"h{name:02}": (place * 31 + name * 17) % 97 / 97 for name in range(30)}
        for place in range(configurations)
    }
    runner.start_all(params)
    for epoch in range(1, epochs + 1):
        results = [
            {
                "result": "epoch",
                "trial": trial,
                "epoch": epoch,
                "metrics": {"val_loss": place % 89 + math.exp(-epoch / 20), "val_accuracy": place % 89 / 89},
            }
            for place, trial in enumerate(params)
        ]
        runner.order(results)
        runner.epochs.update(dict.fromkeys(params, epoch))


def measure_page(folder: Path, configurations: int, epochs: int) -> PageTimes:
    """Open the page, and report one more epoch."""
    _support()
    from browser import open_page  # type: ignore[import-not-found]
    from pages import cell  # type: ignore[import-not-found]
    from steering_server import Server  # type: ignore[import-not-found]

    server = Server(folder)
    server.start()
    try:
        runner = server.runner("large", epochs=epochs + 20)
        _fill(runner, configurations, epochs)
        with open_page(folder / "browser") as page:
            page.visit(server.link())
            began = time.perf_counter()
            page.visit(server.url("experiments/large"))
            page.wait("document.querySelector('[data-ready]') !== null", 120)
            usable = time.perf_counter() - began
            page.value(
                "window.longest = 0; new PerformanceObserver(list => list.getEntries().forEach(each => "
                "{ window.longest = Math.max(window.longest, each.duration); })).observe({entryTypes: ['longtask']}); 1"
            )
            shown = page.value("document.querySelector('#configurations tr[data-id]').dataset.id")
            began = time.perf_counter()
            runner.train(shown, 0.001)
            page.wait(f"{cell(shown, 'Epochs')} === '{epochs + 1} of {epochs + 20}'")
            delay = time.perf_counter() - began
            longest = page.value("window.longest")
            heap = page.value("performance.memory.usedJSHeapSize")
            return PageTimes(usable, longest / 1000, delay, heap / 1e6)
    finally:
        server.stop()


def measure_viewers(folder: Path, viewers: int, epochs: int) -> tuple[list[float], int]:
    """Return the seconds from the report of each epoch to its event at each viewer, and the events that are missing."""
    _support()
    from steering_server import Server  # type: ignore[import-not-found]

    server = Server(folder)
    server.start()
    try:
        server.accounts.set_program("viewer", "viewer", "access-token-of-viewers")
        runner = server.runner("viewed", epochs=epochs)
        runner.start("c000", {"lr": 0.1})
        arrivals: list[tuple[int, float]] = []
        ready = threading.Semaphore(0)

        def follow() -> None:
            client = Client(server.settings.url, token="access-token-of-viewers")
            ready.release()
            for epoch in _epochs(client.follow("viewed")):
                arrivals.append((epoch, time.perf_counter()))
                if epoch == epochs:
                    return

        threads = [threading.Thread(target=follow, daemon=True) for _ in range(viewers)]
        for thread in threads:
            thread.start()
            ready.acquire()
        time.sleep(1.0)
        reported = {}
        for epoch in range(1, epochs + 1):
            reported[epoch] = time.perf_counter()
            runner.train("c000", 1 / epoch)
            time.sleep(0.1)
        for thread in threads:
            thread.join(30)
        return [at - reported[epoch] for epoch, at in arrivals], viewers * epochs - len(arrivals)
    finally:
        server.stop()


def _epochs(events: Iterator[dict[str, Any]]) -> Iterator[int]:
    for event in events:
        if event["stream"] == "orders":
            for result in event["document"]["results"]:
                if result["result"] == "epoch":
                    yield result["epoch"]
