"""Requests through a router, real sockets and backends of this process."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from live_backends import latencies, running
from waiting import until

from udfs.serving import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    Placed,
    ServerStoppedError,
    TooLateError,
)

SECONDS = 20.0


def double(arrays: Any) -> Any:
    return {"y": 2 * arrays["x"]}


def rows(count: int, value: float = 1.0) -> dict[str, Any]:
    return {"x": np.full((count, 2), value, np.float32)}


class Gate:
    """A model that notes its batches, and runs none until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.batches: list[int] = []

    def __call__(self, arrays: Any) -> Any:
        self.batches.append(len(arrays["x"]))
        self.entered.set()
        assert self.open.wait(SECONDS)
        return double(arrays)


def test_each_request_has_its_own_answer_from_many_threads() -> None:
    with running({"double": double}, "a", "b") as server:
        found: dict[int, Any] = {}

        def ask(start: int) -> None:
            futures = {number: server.router.submit("double", rows(2, number)) for number in range(start, start + 20)}
            found.update({number: future.result(SECONDS) for number, future in futures.items()})

        threads = [threading.Thread(target=ask, args=(start,)) for start in range(0, 100, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 100
        for number, outputs in found.items():
            np.testing.assert_array_equal(outputs["y"], np.full((2, 2), 2.0 * number))
        assert server.router.ended["double", "answered"] == 200
        assert server.router.waiting == 0


def test_what_waits_is_run_in_one_batch() -> None:
    gate = Gate()
    with running({"gate": gate}, "a") as server:
        first = server.router.submit("gate", rows(1))
        assert gate.entered.wait(SECONDS)
        others = [server.router.submit("gate", rows(1)) for _ in range(6)]
        until(lambda: server.links["a"].results is not None and server.links["a"].results.waiting == 6)
        gate.open.set()
        for future in (first, *others):
            future.result(SECONDS)
        assert gate.batches == [1, 6]


def test_a_request_that_is_cancelled_is_not_computed() -> None:
    gate = Gate()
    with running({"gate": gate}, "a") as server:
        first = server.router.submit("gate", rows(1))
        assert gate.entered.wait(SECONDS)
        kept, cancelled = server.router.submit("gate", rows(2)), server.router.submit("gate", rows(3))
        until(lambda: server.links["a"].results is not None and server.links["a"].results.waiting == 5)
        assert cancelled.cancel()
        until(lambda: server.links["a"].results is not None and server.links["a"].results.waiting == 2)
        gate.open.set()
        first.result(SECONDS)
        kept.result(SECONDS)
        assert gate.batches == [1, 2]


def test_one_bad_row_spoils_no_batch_of_others() -> None:
    gate = Gate()

    def picky(arrays: Any) -> Any:
        gate(arrays)
        if (arrays["x"] < 0).any():
            raise ZeroDivisionError("below zero")
        return double(arrays)

    with running({"picky": picky}, "a") as server:
        first = server.router.submit("picky", rows(1))
        assert gate.entered.wait(SECONDS)
        futures = [server.router.submit("picky", rows(1, value)) for value in (1.0, -1.0, 3.0)]
        until(lambda: server.links["a"].results is not None and server.links["a"].results.waiting == 3)
        gate.open.set()
        first.result(SECONDS)
        assert futures[2].result(SECONDS)["y"][0, 0] == 6.0
        assert futures[0].result(SECONDS)["y"][0, 0] == 2.0
        with pytest.raises(ModelFailedError, match="ZeroDivisionError: below zero"):
            futures[1].result(SECONDS)
        assert gate.batches == [1, 3, 1, 1, 1]


def test_outputs_without_a_row_for_each_input_are_an_error() -> None:
    with running({"mean": lambda arrays: {"y": arrays["x"].mean(0)}}, "a") as server:
        failure = server.router.submit("mean", rows(1)).exception(SECONDS)
        assert isinstance(failure, ModelFailedError)
        assert "one row per record" in str(failure)


def test_a_deadline_ends_a_request_though_its_batch_hangs() -> None:
    gate = Gate()
    with running({"gate": gate}, "a", per_row_ms=0.1) as server:
        began = time.monotonic()
        future = server.router.submit("gate", rows(1), timeout_ms=300.0)
        with pytest.raises(TooLateError):
            future.result(SECONDS)
        assert time.monotonic() - began >= 0.3
        gate.open.set()


def test_what_is_too_late_from_the_start_is_never_sent() -> None:
    gate = Gate()
    gate.open.set()
    with running({"gate": gate}, "a", per_row_ms=50.0) as server:
        with pytest.raises(TooLateError, match=r"takes at least 50\.0 ms"):
            server.router.submit("gate", rows(1), timeout_ms=20.0).result(SECONDS)
        assert gate.batches == []


def test_a_lost_backend_s_requests_are_answered_by_another() -> None:
    gate = Gate()
    with running({"gate": gate}, "a", "b") as server:
        futures = [server.router.submit("gate", rows(1, value)) for value in range(10)]
        assert gate.entered.wait(SECONDS)
        server.cut("a")
        until(lambda: server.lost == ["a"])
        gate.open.set()
        assert [future.result(SECONDS)["y"][0, 0] for future in futures] == [2.0 * value for value in range(10)]
        assert server.router.ready


def test_with_no_backend_left_requests_end_at_once() -> None:
    with running({"double": double}, "a") as server:
        server.cut("a")
        until(lambda: server.lost == ["a"])
        assert not server.router.ready
        with pytest.raises(OverloadedError, match="No backend serves double") as caught:
            server.router.submit("double", rows(1)).result(SECONDS)
        assert caught.value.retry_after_s > 0


def test_a_model_that_moves_loses_no_request() -> None:
    """Backend a gives back what waits for it, and the router sends it to b."""
    gate = Gate()
    with running({"gate": gate, "double": double}, "a", "b") as server:
        server.router.route({"gate": {"a": 1.0}, "double": {"a": 1.0, "b": 1.0}})
        first = server.router.submit("gate", rows(1))
        assert gate.entered.wait(SECONDS)
        others = [server.router.submit("gate", rows(1, 5.0)) for _ in range(4)]
        until(lambda: server.links["a"].results is not None and server.links["a"].results.waiting == 4)
        server.router.route({"gate": {"b": 1.0}, "double": {"a": 1.0, "b": 1.0}})
        server.links["a"].adopt([Placed("double", 8, latencies(1.0))], SECONDS)
        gate.open.set()
        first.result(SECONDS)
        assert all(future.result(SECONDS)["y"][0, 0] == 10.0 for future in others)


def test_a_stopped_server_fails_what_waits() -> None:
    gate = Gate()
    with running({"gate": gate}, "a") as server:
        future = server.router.submit("gate", rows(1))
        assert gate.entered.wait(SECONDS)
        server.router.stop()
        with pytest.raises(ServerStoppedError):
            future.result(SECONDS)
        with pytest.raises(ServerStoppedError):
            server.router.submit("gate", rows(1)).result(SECONDS)
        gate.open.set()


def test_bad_requests_are_refused_at_the_door() -> None:
    with running({"double": double}, "a") as server:
        submit = server.router.submit
        with pytest.raises(NoSuchModelError, match="'treble'"):
            submit("treble", rows(1))
        with pytest.raises(NoSuchModelError, match="must be '1', got '2'"):
            submit("double", rows(1), version="2")
        for inputs, words in (
            ({}, "Input 'x' of double must be set"),
            ({"x1": rows(1)["x"]}, "must be 'x', got 'x1'"),
            ({"x": np.zeros((1, 2))}, "must be float32, got float64"),
            ({"x": np.zeros((1, 3), np.float32)}, r"must have the shape \(-1, 2\), got \(1, 3\)"),
            ({"x": np.float32(1)}, "must be an array of rows"),
            ({"x": np.zeros((0, 2), np.float32)}, "got 0"),
            ({"x": np.array([[np.nan, 1]], np.float32)}, "must be finite"),
        ):
            with pytest.raises(BadRequestError, match=words):
                submit("double", inputs)
        for timeout in (0, -1.0, float("nan"), float("inf"), True):
            with pytest.raises(BadRequestError, match="timeout_ms"):
                submit("double", rows(1), timeout_ms=timeout)
        assert server.router.waiting == 0
