"""Counts of requests, as Prometheus and the live page have them."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import CancelledError
from datetime import UTC, datetime, timedelta

import pytest
from http_client import HttpClient, infer_body
from numpy_router import NumpyRouter
from places import ROOT

from optimizer import __version__
from udfs.serving import ServedModel
from udfs.serving.http import FrontEnd, Gauge
from udfs.serving.http._errors import reason_of
from udfs.serving.http._traffic import RESULTS, Traffic

ROW = infer_body("FP32", [1, 3], [[1.0, 2.0, 3.0]])
MODEL = ServedModel("cats", "1", (), (), "torch", 100.0)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_last_minute() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    for number in range(200):
        clock.now += 0.1
        traffic.began(MODEL)
        traffic.ended(MODEL, "in_time" if number % 4 else "late", number / 1000)
    for result in ("too_late", "bad_request", "disconnected"):
        traffic.began(MODEL)
        traffic.ended(MODEL, result, 9.0)
    recent = traffic.recent(MODEL)
    # Twenty seconds have passed, not sixty; what a client got wrong is not the server's.
    assert recent.rate == pytest.approx(201 / 20)
    assert recent.in_time == pytest.approx(150 / 201)
    assert (recent.p50_ms, recent.p99_ms) == (pytest.approx(100), pytest.approx(198))
    clock.now += 61
    assert traffic.recent(MODEL).rate == 0
    assert traffic.recent(MODEL).in_time is None
    totals, _ = traffic.totals()
    assert totals["cats", "1"].results["late"] == 50
    assert sum(totals["cats", "1"].buckets) == 200
    assert totals["cats", "1"].in_flight == 0


def test_a_result_has_a_count() -> None:
    assert {reason_of(error) for error in (ValueError("x"), CancelledError())} <= set(RESULTS)


def counted(text: str, line: str) -> float:
    values = [float(one.rsplit(" ", 1)[1]) for one in text.splitlines() if one.startswith(line)]
    assert len(values) == 1, (line, text)
    return values[0]


def test_prometheus(front: FrontEnd, client: HttpClient) -> None:
    pytest.importorskip("prometheus_client")
    for _ in range(3):
        client.infer("linear", ROW)
    client.infer("linear", infer_body("FP64", [1, 3], [[1, 2, 3]]))
    client.infer("fails", ROW)
    client.infer("never", {**ROW, "parameters": {"timeout": 1000}})
    client.infer("evil%0Aname", ROW)
    HttpClient(front.port, None).get("/v2")
    reply = client.get("/metrics")
    text = reply.body.decode()
    assert reply.headers["content-type"].startswith("text/plain")
    requests = 'vista_serving_requests_total{model="%s",result="%s",version="%s"}'
    assert counted(text, requests % ("linear", "in_time", "2")) == 3
    assert counted(text, requests % ("linear", "bad_request", "2")) == 1
    assert counted(text, requests % ("fails", "failed", "1")) == 1
    assert counted(text, requests % ("never", "too_late", "1")) == 1
    bucket = 'vista_serving_latency_seconds_bucket{le="+Inf",model="linear",version="2"}'
    assert counted(text, bucket) == counted(text, 'vista_serving_latency_seconds_count{model="linear"') == 3
    assert 0 < counted(text, 'vista_serving_latency_seconds_sum{model="linear"') < 60
    assert counted(text, 'vista_serving_in_flight{model="linear"') == 0
    assert counted(text, 'vista_serving_refused_total{reason="unauthorized"}') == 1
    assert counted(text, 'vista_serving_refused_total{reason="no_such_model"}') == 1
    assert counted(text, 'vista_serving_queue_length{model="never"}') == 4
    assert "evil" not in text


def test_metrics_without_the_package(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.serving.http._monitor.is_prometheus_here", lambda: False)
    reply = client.get("/metrics")
    assert reply.status == 501
    assert "cerebro-spark[serving]" in reply.error


def test_the_page_holds_no_numbers_and_needs_no_token(front: FrontEnd) -> None:
    reply = HttpClient(front.port, None).get("/")
    assert reply.status == 200
    policy = reply.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    text = reply.body.decode()
    assert "linear" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_what_the_page_shows(client: HttpClient) -> None:
    client.infer("images", ROW)
    for _ in range(2):
        client.infer("echo_float32", infer_body("FP32", [1, 1], [1]))
    status = client.get("/status").json
    model = next(model for model in status["models"] if model["name"] == "echo_float32")
    assert (model["version"], model["in_flight"], model["in_time"]) == ("1", 0, 1.0)
    assert model["results"] == {"in_time": 2}
    assert model["rate"] > 0
    assert 0 < model["p50_ms"] <= model["p99_ms"]
    assert next(model for model in status["models"] if model["name"] == "images")["results"] == {"bad_request": 1}
    assert {"name": "queue_length", "value": 3, "labels": {"model": "linear"}} in status["gauges"]
    assert status["ready"] is True
    assert (status["product"], status["version"]) == ("cerebro-spark", __version__)
    assert abs(datetime.fromisoformat(status["time"]) - datetime.now(UTC)) < timedelta(minutes=10)
    assert len(model["history"]) == 30
    assert model["history"][-1]["rate"] + model["history"][-2]["rate"] > 0


def test_the_last_quarter_of_an_hour() -> None:
    clock = Clock()
    clock.now = 3000.0  # the first second of a step
    traffic = Traffic(clock)
    for _ in range(60):
        traffic.began(MODEL)
        traffic.ended(MODEL, "in_time", 0.02)
    clock.now += 30
    for result in ("overloaded", "bad_request"):
        traffic.began(MODEL)
        traffic.ended(MODEL, result, 5.0)
    clock.now += 45
    steps = traffic.history(MODEL)
    assert len(steps) == 30
    assert [round(step.rate, 3) for step in steps[-4:]] == [0, 2, round(1 / 30, 3), 0]
    assert [step.p99_ms for step in steps[-4:]] == [None, pytest.approx(20), None, None]
    assert [step.age_s for step in steps[-3:]] == [60, 30, 7.5]
    clock.now += 900
    assert not any(step.rate for step in traffic.history(MODEL)), "it is over"


def test_the_page_shows_nothing_but_the_form_without_a_token(front: FrontEnd) -> None:
    """The script shows the numbers only once the server has accepted the token."""
    client = HttpClient(front.port, None)
    before, _ = client.get("/").body.decode().split('<div id="main" hidden>')
    assert 'at("main").hidden = !reply.ok' in client.get("/static/live.js").body.decode()
    assert "<form" in before
    assert "<table" not in before
    assert client.get("/status").status == 401


def test_the_page_has_the_style_of_the_web_application(front: FrontEnd) -> None:
    client = HttpClient(front.port, None)
    linked = re.findall(r'(?:href|src)="([^"]+)"', client.get("/").body.decode())
    assert "static/style.css" in linked
    for path in linked:
        reply = client.get(f"/{path}")
        assert (reply.status, reply.headers["x-content-type-options"]) == (200, "nosniff"), path
    assert client.get("/static/../_app.py").status in {401, 404}


def test_gauges_that_fail_cost_no_other_number() -> None:
    def gauges() -> list[Gauge]:
        raise RuntimeError("the backend is away")

    router = NumpyRouter()
    with FrontEnd(router, port=0, gauges=gauges, token=False) as front:
        assert HttpClient(front.port, None).get("/status").json["gauges"] == []
    router.close()


def test_the_backend_does_not_import_the_front_end() -> None:
    code = "import sys, udfs.serving; print({'starlette', 'uvicorn'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
