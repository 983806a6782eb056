"""A request that ends the process of the only backend, again and again: a repetition is refused at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from live_backends import SPEC, served
from played_links import PlayedLink, played
from waiting import until

from udfs.serving import Admission, LiveRouter, ModelFailedError, Offered, OverloadedError, ServedModel, _fatal_rows
from udfs.serving._errors import TooLateError
from udfs.serving._fatal_rows import FatalRows
from udfs.serving._messages import Answer

if TYPE_CHECKING:
    from concurrent.futures import Future

SECONDS = 30.0
POISON = 666.0


def rows(*values: float) -> dict[str, Any]:
    return {"x": np.array([[value, value] for value in values], np.float32)}


class OneBackend:
    """A router to one backend, which is started again after each loss."""

    def __init__(self) -> None:
        self.router: LiveRouter
        self.router, links = played("a")
        self.link = links["a"]
        self.lost_rows: list[int] = []

    def restart(self, **how: float) -> None:
        self.link.alive = False
        self.router.lost(self.link, "its process ended", **how)
        self.lost_rows.append(self.link.lost_rows)
        self.link = PlayedLink("a")
        self.router.attach(self.link)  # type: ignore[arg-type]
        self.router.route({"m": {"a": 1.0}})

    def answer(self) -> None:
        self.router.answered([Answer(unit.number, "", "", {"y": np.ones(2)}) for unit in self.link.units])

    @property
    def sent(self) -> list[tuple[float, bool]]:
        """Values of the rows that the backend has, and whether each runs in a batch of its own."""
        return [(float(unit.inputs["x"][0]), unit.suspect) for unit in self.link.units]


def refused(future: Future[Any]) -> bool:
    return future.done() and isinstance(future.exception(), ModelFailedError)


def test_a_repeated_request_ends_two_processes_at_most() -> None:
    one = OneBackend()
    first = one.router.submit("m", rows(POISON))
    one.restart()
    assert isinstance(first.exception(SECONDS), OverloadedError)
    second = one.router.submit("m", rows(POISON))
    assert one.sent == [(POISON, True)]
    one.restart()
    with pytest.raises(ModelFailedError, match=r"lost twice .* not tried again: its process ended"):
        second.result(SECONDS)
    for _ in range(3):
        assert refused(one.router.submit("m", rows(POISON)))
    # A request with the row among others is refused whole, and others are served.
    assert refused(one.router.submit("m", rows(1.0, POISON, 2.0)))
    good = one.router.submit("m", rows(1.0, 2.0))
    assert one.sent == [(1.0, False), (2.0, False)]
    one.answer()
    assert good.result(SECONDS)["y"].shape == (2, 2)
    assert one.router.waiting == 0
    assert one.router.ended["m", "ModelFailedError"] == 5
    assert one.lost_rows == [1, 1]
    one.router.stop()


def test_rows_that_were_beside_it_are_cleared_by_an_answer() -> None:
    one = OneBackend()
    for value in (1.0, POISON, 2.0):
        one.router.submit("m", rows(value))
    one.restart()
    good = [one.router.submit("m", rows(value)) for value in (1.0, 2.0)]
    assert one.sent == [(1.0, True)], "one at a time"
    one.answer()
    assert one.sent == [(1.0, True), (2.0, True)]
    one.answer()
    assert all(future.result(SECONDS)["y"].shape == (1, 2) for future in good)
    one.router.submit("m", rows(1.0))
    assert one.sent[-1] == (1.0, False)
    one.router.stop()


@pytest.mark.parametrize("failure", ["bad", "failed"])
def test_a_row_that_the_model_refuses_is_no_suspect(failure: str) -> None:
    one = OneBackend()
    one.router.submit("m", rows(1.0))
    one.restart()
    one.router.submit("m", rows(1.0))
    one.router.answered([Answer(one.link.units[-1].number, failure, "no", {})])
    one.router.submit("m", rows(1.0))
    assert one.sent[-1] == (1.0, False)
    one.router.stop()


@pytest.mark.parametrize("end", ["late", "cancelled"])
@pytest.mark.parametrize("hangs", [True, False])
def test_a_process_that_ends_after_the_caller_stopped_waiting(end: str, hangs: bool) -> None:
    """The batch hangs, or the out-of-memory killer ends the process."""
    one = OneBackend()

    def submit() -> Any:
        future = one.router.submit("m", rows(POISON), timeout_ms=30.0 if end == "late" else None)
        (unit,) = one.link.units
        if end == "late":
            assert isinstance(future.exception(SECONDS), TooLateError)
        else:
            future.cancel()
            one.link.units = [unit]  # it was in a batch already
        until(lambda: one.router.waiting == 0)
        return {"hung_since": unit.routed} if hangs else {}

    one.restart(**submit())
    how = submit()
    assert one.sent == [(POISON, True)]
    one.restart(**how)
    assert refused(one.router.submit("m", rows(POISON)))
    assert one.lost_rows == [1, 1], "no restarts of the server are used up"
    one.router.stop()


def test_a_late_answer_clears_a_row() -> None:
    one = OneBackend()
    late = one.router.submit("m", rows(1.0), timeout_ms=30.0)
    assert isinstance(late.exception(SECONDS), TooLateError)
    one.answer()
    one.restart()
    one.router.submit("m", rows(1.0))
    assert one.sent == [(1.0, False)]
    one.router.stop()


def condemned() -> OneBackend:
    one = OneBackend()
    for _ in range(2):
        one.router.submit("m", rows(POISON))
        one.restart()
    assert refused(one.router.submit("m", rows(POISON)))
    return one


def test_another_version_is_asked_anew() -> None:
    one = condemned()
    model = served("m")
    newer = ServedModel("m", "2", model.inputs, model.outputs, model.platform, model.slo_ms)
    one.router.switch([Offered(newer, Admission("m", (SPEC,), {}), "m", shared=False, least_ms=1.0)], {"m": {"a": 1.0}})
    one.router.submit("m", rows(POISON))
    assert one.sent == [(POISON, False)]
    one.router.stop()


def test_a_refused_row_is_tried_alone_after_some_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another reason may have ended the process both times."""
    monkeypatch.setattr(_fatal_rows, "_REFUSED_S", 0.0)
    one = OneBackend()
    for _ in range(2):
        one.router.submit("m", rows(POISON))
        one.restart()
    innocent = one.router.submit("m", rows(POISON))
    assert one.sent == [(POISON, True)]
    one.answer()
    assert innocent.result(SECONDS)["y"].shape == (1, 2)
    one.router.submit("m", rows(POISON))
    assert one.sent[-1] == (POISON, False)
    one.router.stop()


def unit(number: int, value: float, nbytes: int = 8) -> Any:
    inputs = {"x": np.array([value, value], np.float32)}
    return SimpleNamespace(
        number=number, session="m", version="1", key="", inputs=inputs, nbytes=nbytes, link="a", suspect=True
    )


def test_the_memory_is_bounded_and_keeps_fatal_rows() -> None:
    fatal = FatalRows()
    message = fatal.condemn(unit(0, POISON), "its process ended")
    for number in range(1, 1000):
        fatal.suspect(unit(number, float(number)))
    assert fatal.verdict(unit(0, POISON)) == message
    assert fatal.verdict(unit(0, 999.0)) == ""
    assert fatal.verdict(unit(0, 1.0)) is None
    for number in range(1000):
        fatal.leave(unit(number, 0.0))
        fatal.leave(unit(number, 0.0))
    assert len(fatal.lost("a")) == 256
    for number in range(100):
        fatal.leave(unit(number, 0.0, nbytes=8 << 20))
    assert [each.number for each in fatal.lost("a")] == list(range(92, 100))
    assert fatal.lost("a") == []
