"""A request that ends the process of its backend is tried once more, alone, and leaves the other backends."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from live_backends import Running, running
from played_links import played
from waiting import until

from udfs.serving import LiveRouter, ModelFailedError, OverloadedError
from udfs.serving._messages import Answer
from udfs.serving._suspect_rows import SuspectRows
from vista_spark.serving._backend_job import BackendJob
from vista_spark.serving._backends import Backends

SECONDS = 30.0
POISON, WAITS = 666.0, 1.0


def rows(*values: float) -> dict[str, Any]:
    return {"x": np.array([[value, value] for value in values], np.float32)}


class Fragile:
    """A model that loses its backend on a poisonous row, and waits on another one until it may go on."""

    def __init__(self) -> None:
        self.server: Running | None = None
        self.entered, self.open = threading.Event(), threading.Event()
        self.batches: list[list[float]] = []

    def __call__(self, arrays: Any) -> Any:
        values = arrays["x"][:, 0].tolist()
        self.batches.append(values)
        if WAITS in values:
            self.entered.set()
            assert self.open.wait(SECONDS)
        if POISON in values:
            assert self.server is not None
            self.server.cut(threading.current_thread().name)
        return {"y": 2 * arrays["x"]}


def test_a_poisonous_request_takes_two_backends_and_fails() -> None:
    model = Fragile()
    with running({"m": model}, "a", "b", "c") as server:
        model.server = server
        poison = server.router.submit("m", rows(POISON))
        with pytest.raises(ModelFailedError, match="was lost twice while it had this request"):
            poison.result(SECONDS)
        assert model.batches == [[POISON], [POISON]]
        until(lambda: len(server.lost) == 2)
        assert server.router.submit("m", rows(3.0)).result(SECONDS)["y"][0, 0] == 6.0
        assert server.router.ended["m", "ModelFailedError"] == 1
        assert server.router.waiting == 0


@pytest.mark.parametrize("separate", [False, True])
def test_rows_of_the_same_batch_are_answered(separate: bool) -> None:
    """They are tried again one after the other, each in a batch of its own."""
    model = Fragile()
    with running({"m": model}, "a", "b", "c") as server:
        model.server = server
        server.router.route({"m": {"a": 1.0}})
        first = server.router.submit("m", rows(WAITS))
        assert model.entered.wait(SECONDS)
        if separate:
            good = [server.router.submit("m", rows(value)) for value in (2.0, 3.0)]
            poison = server.router.submit("m", rows(POISON))
        else:
            good = []
            poison = server.router.submit("m", rows(2.0, POISON, 3.0))
        until(lambda: server.links["a"].results is not None and server.links["a"].results.waiting == 3)
        server.router.route({"m": dict.fromkeys("abc", 1.0)})
        model.open.set()
        assert first.result(SECONDS)["y"][0, 0] == 2.0
        with pytest.raises(ModelFailedError, match="was lost twice"):
            poison.result(SECONDS)
        assert [future.result(SECONDS)["y"][0, 0] for future in good] == ([4.0, 6.0] if separate else [])
        assert all(len(values) == 1 for values in model.batches[2:])
        until(lambda: len(server.lost) == 2)
        assert server.router.submit("m", rows(3.0)).result(SECONDS)["y"][0, 0] == 6.0


def lose(router: LiveRouter, link: Any, **how: float) -> None:
    link.alive = False
    router.lost(link, "its process ended", **how)


def test_rows_that_wait_beside_the_row_on_trial_are_no_suspects() -> None:
    router, links = played("a", "b", "c")
    router.route({"m": {"a": 1.0}})
    poison = router.submit("m", rows(POISON))
    unsent = router.submit("m", rows(2.0))
    links["a"].unsent = {links["a"].units[1].number}
    router.route({"m": {"b": 1.0}})
    lose(router, links["a"])
    assert [(unit.suspect, links["a"].lost_rows) for unit in links["b"].units] == [(False, 1), (True, 1)]
    router.route({"m": {"c": 1.0}})
    lose(router, links["b"])
    assert isinstance(poison.exception(SECONDS), ModelFailedError)
    (left,) = links["c"].units
    assert not left.suspect
    router.answered([Answer(left.number, "", "", {"y": np.ones(2)})])
    assert unsent.result(SECONDS)["y"].tolist() == [[1, 1]]
    router.stop()


def test_rows_sent_after_a_hung_batch_began_are_no_suspects() -> None:
    router, links = played("a", "b", "c")
    router.route({"m": {"a": 1.0}})
    hangs = router.submit("m", rows(POISON))
    began = links["a"].units[0].routed
    later = [router.submit("m", rows(value)) for value in (2.0, 3.0)]
    router.route({"m": {"b": 1.0}})
    lose(router, links["a"], hung_since=began)
    assert [(unit.number, unit.suspect) for unit in links["b"].units] == [(2, False), (3, False), (1, True)]
    assert links["a"].lost_rows == 3
    router.answered([Answer(2, "", "", {"y": np.ones(2)})])
    assert later[0].result(SECONDS)["y"].tolist() == [[1, 1]]
    # The batch that hangs next began with row 3, before the row on trial came, which is tried on another backend.
    router.route({"m": {"c": 1.0}})
    lose(router, links["b"], hung_since=links["b"].units[1].routed)
    assert [(unit.number, unit.suspect) for unit in links["c"].units] == [(1, True)]
    router.answered([Answer(1, "", "", {"y": np.ones(2)})])
    assert hangs.result(SECONDS)["y"].tolist() == [[1, 1]]
    assert [(unit.number, unit.suspect) for unit in links["c"].units[1:]] == [(3, True)]
    router.stop()


@pytest.mark.parametrize("end", ["answered", "failed", "cancelled", "late"])
def test_the_next_suspect_is_sent_when_the_row_on_trial_ends(end: str) -> None:
    router, links = played("a", "b")
    router.route({"m": {"a": 1.0}})
    first = router.submit("m", rows(1.0), timeout_ms=300.0 if end == "late" else None)
    second = router.submit("m", rows(2.0))
    router.route({"m": {"b": 1.0}})
    lose(router, links["a"])
    assert [unit.number for unit in links["b"].units] == [1]
    if end == "cancelled":
        first.cancel()
    elif end != "late":
        router.answered([Answer(1, "failed" if end == "failed" else "", "", {"y": np.ones(2)})])
    until(lambda: links["b"].units[-1].number == 2)
    router.answered([Answer(2, "", "", {"y": np.ones(2)})])
    assert second.result(SECONDS)["y"].tolist() == [[1, 1]]
    assert router.waiting == 0
    router.stop()


def test_suspects_without_another_backend_end_at_once() -> None:
    router, links = played("a")
    futures = [router.submit("m", rows(1.0)) for _ in range(1500)]
    lose(router, links["a"])
    assert all(isinstance(future.exception(SECONDS), OverloadedError) for future in futures)
    router.stop()


def test_suspects_are_sent_one_at_a_time_and_those_that_ended_are_left_out() -> None:
    waiting = set(range(2000))
    sent: list[int] = []

    def send(unit: Any) -> None:
        sent.append(unit.number)
        if unit.number % 2:  # it fails at once
            waiting.discard(unit.number)
            suspects.ended(unit)

    suspects = SuspectRows(waiting.__contains__, send)
    units: Any = [SimpleNamespace(number=number, suspect=False) for number in range(2000)]
    suspects.add(units)
    assert sent == [0]
    assert all(unit.suspect for unit in units)
    waiting -= {2, *range(4, 1998)}
    for number in (0, 1998):
        assert suspects.is_on_trial(units[number])
        waiting.discard(number)
        suspects.ended(units[number])
    assert sent == [0, 1, 3, 1998, 1999]


@pytest.mark.parametrize(("lost_rows", "uncharged"), [(2, 1), (0, 0)])
def test_a_loss_with_requests_is_no_restart(lost_rows: int, uncharged: int) -> None:
    nothing: Any = None
    session: Any = SimpleNamespace(newSession=lambda: None)
    worker: Any = SimpleNamespace(worker="backend-0", spare=False)
    job = BackendJob(session, nothing, worker, restarts=1)
    backends = Backends.__new__(Backends)
    backends._changed, backends._closing = threading.Condition(), False
    backends._jobs, backends._links, backends._gone = {"backend-0": job}, {}, {}
    backends._changed_hook = lambda: None
    link: Any = SimpleNamespace(name="backend-0", lost_rows=lost_rows)
    backends.noticed(link, "its process ended")
    assert job.uncharged("backend-0") == uncharged


def test_a_hung_batch_is_reported_with_its_start() -> None:
    reports: list[tuple[str, float]] = []
    link: Any = SimpleNamespace(name="backend-0", alive=True, running_ms=12_000.0, close=lambda: None)
    backends = Backends.__new__(Backends)
    backends._changed, backends._hangs_ms = threading.Condition(), 10_000.0
    backends._links, backends._gone = {"backend-0": link}, {}
    router: Any = SimpleNamespace(lost=lambda _link, why, *, hung_since: reports.append((why, hung_since)))
    backends._router = router
    earliest = time.monotonic() - 12.0
    assert backends.look_after("backend-0") == ("backend-0",)
    ((why, since),) = reports
    assert why == "a batch has run for more than 10 s"
    assert earliest <= since <= time.monotonic() - 12.0
