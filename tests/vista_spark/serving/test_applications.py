"""Applications on a real Spark session: what they call, what each call's time is, and how their requests end."""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from http_client import HttpClient, infer_body
from pyspark import cloudpickle

from optimizer.serving import BatchingProfile, InfeasibleError
from udfs.serving import BadRequestError, ModelFailedError, NoSuchModelError, RequestError, TensorSpec, TooLateError
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import App, Server, Session
from vista_spark.serving._app import CURRENT
from vista_spark.serving._app_calls import AppRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from vista_spark.serving import Api
    from vista_spark.serving._app_calls import LiveApp

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.connect_slow

SLO = 60_000
SECONDS = 120.0
FRAME = [TensorSpec("frame", "float32", (-1, -1))]
PART = [TensorSpec("part", "float32", (-1, 2))]
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})


def boxes(arrays: Any) -> Any:
    """Give the places of a frame above 1."""
    found = [np.flatnonzero(row > 1) for row in arrays["frame"]]
    width = max((len(one) for one in found), default=0)
    places = np.full((len(found), width), -1, np.int64)
    for row, one in zip(places, found, strict=True):
        row[: len(one)] = one
    return {"places": places}


def kind(arrays: Any) -> Any:
    if (arrays["part"] > 90).any():
        raise ValueError("too large to be true")
    return {"kind": (arrays["part"].sum(axis=1) > 10).astype(np.int64)}


class Traffic(App):
    """Figure 3.9, in small: a frame's places are found, and each is recognised."""

    inputs = tuple(FRAME)

    def setup(self) -> None:
        self.detector, self.cars = self.model("boxes"), self.model("kind")

    def process(self, request: Any) -> Any:
        places = [int(place) for place in self.detector.execute(request).result() if place >= 0]
        found = [self.cars.execute(np.float32([request[place], place])) for place in places]
        return {"places": np.array(places, np.int64), "kinds": np.array([one.result() for one in found], np.int64)}


class Sleeper(App):
    inputs = tuple(FRAME)

    def setup(self) -> None:
        self.detector = self.model("boxes")

    def process(self, request: Any) -> Any:
        found = self.detector.execute(request).result()
        time.sleep(float(request[0]))
        return found


def frame(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def models(server: Server) -> Server:
    for name, model, inputs in (("boxes", boxes, FRAME), ("kind", kind, PART)):
        server.deploy(Session(name, model=model, inputs=inputs, profile=PROFILE, slo_ms=SLO))
    return server


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Server:
    made = models(Server(spark, backends=1, epoch_s=0.5))
    made.deploy(Traffic("traffic", samples=[frame(0, 2, 0), frame(3, 0, 9)], slo_ms=SLO, rate=10))
    return made.deploy(Sleeper("sleeper", samples=[frame(0)], slo_ms=SLO))


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Api]:
    with server.start(SECONDS, port=0) as running:
        yield running


def test_calls_are_found_on_the_samples(server: Server) -> None:
    split = server.split("traffic")
    assert split.query.calls == {("boxes", "kind"): 1.5}
    assert sum(split.budgets.values()) == pytest.approx(SLO)
    planned = {one.session: one for node in server.plan().nodes for one in node.placements}
    # Expected by themselves once a second, and by the applications 10 and 15 times, and once.
    assert planned["kind"].rate == pytest.approx(1 + 15)
    assert planned["boxes"].rate == pytest.approx(1 + 10 + 1)
    with pytest.raises(InvalidArgumentError, match="did you mean 'traffic'"):
        server.split("trafic")


def test_an_answer_is_that_of_the_models_by_hand(api: Api) -> None:
    given = frame(0, 2, 1, 30, 5)
    answer = api["traffic"].execute(given).result(SECONDS)
    places = [place for place in api["boxes"].execute(given).result(SECONDS) if place >= 0]
    assert answer["places"].tolist() == places == [1, 3, 4]
    kinds = [api["kind"].execute(frame(given[place], place)).result(SECONDS) for place in places]
    assert answer["kinds"].tolist() == kinds == [0, 1, 0]


def test_it_answers_over_http(api: Api) -> None:
    assert api.url is not None
    client = HttpClient(int(api.url.rsplit(":", 1)[1]), api.token)
    reply = client.infer("traffic", infer_body("FP32", [1, 3], [[0, 2, 40]], name="frame"))
    assert {one["name"]: one["data"] for one in reply.json["outputs"]} == {"places": [1, 2], "kinds": [0, 1]}
    facts = client.get("/v2/models/traffic").json
    assert facts["platform"] == "application"
    assert [one["name"] for one in facts["outputs"]] == ["places", "kinds"]


def test_rows_of_one_request_are_a_batch(api: Api) -> None:
    batch = np.stack([frame(2, 0, 0), frame(0, 0, 40)])
    answer = api.submit("traffic", {"frame": batch}).result(SECONDS)
    assert answer["places"].tolist() == [[0], [2]]
    with pytest.raises(ModelFailedError, match="answers of different shapes"):
        api.submit("traffic", {"frame": np.stack([frame(2, 0), frame(2, 2)])}).result(SECONDS)


def test_a_model_that_fails_ends_the_request(api: Api) -> None:
    with pytest.raises(ModelFailedError, match="too large to be true"):
        api["traffic"].execute(frame(99)).result(SECONDS)
    assert api.counts["traffic", "ModelFailedError"] >= 1
    assert api["traffic"].execute(frame(2)).result(SECONDS)["places"].tolist() == [0]


def test_wrong_requests_are_refused_at_once(api: Api) -> None:
    for record, why in (
        (np.ones(2), "must be float32, got float64"),
        ({"image": frame(1)}, "got 'image'"),
    ):
        with pytest.raises(BadRequestError, match=why):
            api["traffic"].execute(record)
    with pytest.raises(RequestError, match="must be '1', got"):
        api.submit("traffic", {"frame": frame(1)[None]}, version="2")
    with pytest.raises(InvalidArgumentError, match="got the application"):
        api.scorer("traffic")


def test_code_that_takes_too_long_is_not_waited_for(api: Api) -> None:
    asked = api["sleeper"].execute(frame(30), timeout_ms=2_000)
    began = time.monotonic()
    with pytest.raises(TooLateError, match="by the deadline"):
        asked.result(SECONDS)
    assert time.monotonic() - began < 20


def test_calls_end_with_their_request() -> None:
    request = AppRequest(cast("LiveApp", None), 1, time.monotonic() + SECONDS)
    before, after = Future[Any](), Future[Any]()
    request.add_call(before)
    assert request.joined.future.cancel()
    request.add_call(after)
    assert before.cancelled()
    assert after.cancelled()


def test_one_application_on_two_servers_asks_the_one_that_was_asked() -> None:
    """Its handlers are made once: the request says whose models answer."""
    app = Sleeper("sleeper", samples=[frame(0)], slo_ms=SLO)
    app.prepare(["boxes"])
    answers = []
    for server in ("first", "second"):
        calls = _Named(server)
        token = CURRENT.set(calls)
        answers.append(app.detector.execute(frame(0)).result())
        CURRENT.reset(token)
    assert answers == ["first", "second"]


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def execute(self, model: str, record: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_result(self.name)
        return answer


def test_a_cancelled_request_is_counted(api: Api) -> None:
    before = api.counts.get(("sleeper", "cancelled"), 0)
    asked = api["sleeper"].execute(frame(5))
    assert asked.cancel()
    until = time.monotonic() + SECONDS
    while api.counts.get(("sleeper", "cancelled"), 0) == before and time.monotonic() < until:
        time.sleep(0.01)
    assert api.counts["sleeper", "cancelled"] == before + 1


def test_budgets_follow_the_traffic(api: Api, server: Server) -> None:
    """A frame has six places by now, and the detector's part of the deadline shrinks with the next epochs."""
    crowded = frame(*[2] * 6)
    until = time.monotonic() + SECONDS
    while api.split("traffic").query.calls["boxes", "kind"] < 4 and time.monotonic() < until:
        for asked in [api["traffic"].execute(crowded) for _ in range(10)]:
            asked.result(SECONDS)
    assert api.split("traffic").query.calls["boxes", "kind"] >= 4
    with pytest.raises(NoSuchModelError, match="did you mean 'traffic'"):
        api.split("trafic")
    assert server.split("traffic").query.calls["boxes", "kind"] == 1.5, "what was deployed stays for the next start"


class Doubled(Sleeper):
    """Another version of an application: it asks another model, too."""

    def setup(self) -> None:
        super().setup()
        self.cars = self.model("kind")

    def process(self, request: Any) -> Any:
        super().process(request)
        return {"kind": self.cars.execute(request[:2]).result()}


def test_an_application_is_deployed_while_the_server_runs(api: Api) -> None:
    """The plan counts its calls before its first request; what a former version was asked, it answers."""
    with pytest.raises(NoSuchModelError, match="Model 'late' is not deployed"):
        api["late"]
    api.deploy(Sleeper("late", samples=[frame(0)], slo_ms=SLO, rate=50))
    assert api.plan is not None
    planned = {one.session: one for node in api.plan.nodes for one in node.placements}
    assert planned["boxes"].rate >= 50
    assert api["late"].execute(frame(0, 2)).result(SECONDS).tolist() == [1]
    with pytest.raises(
        InvalidArgumentError, match="version must differ from the deployed one, got '1' for application 'late'"
    ):
        api.deploy(Sleeper("late", samples=[frame(0)], slo_ms=SLO))
    asked = api["late"].execute(frame(1, 2))
    api.deploy(Doubled("late", samples=[frame(0, 0)], slo_ms=SLO, version="2"))
    assert not asked.done()
    assert asked.result(SECONDS).tolist() == [1], "the former one"
    assert api["late"].execute(frame(0, 20)).result(SECONDS).tolist() == 1
    assert api["late"].served.version == "2"
    assert api.split("late").query.calls == {("boxes", "kind"): 1.0}


def test_what_cannot_be_deployed_on_a_running_server_changes_nothing(api: Api) -> None:
    before = [served.name for served in api.models]
    for wrong, why in (
        (Sleeper("kind", samples=[frame(0)], slo_ms=SLO), "got 'kind', which a session has already"),
        (Wrong(silent), "must make application 'wrong' call a model"),
        (
            Session("traffic", model=kind, inputs=PART, profile=PROFILE, slo_ms=SLO),
            "got 'traffic', which an application has already",
        ),
    ):
        with pytest.raises(InvalidArgumentError, match=why):
            api.deploy(wrong)
    assert [served.name for served in api.models] == before
    assert api["traffic"].execute(frame(0, 2)).result(SECONDS)["places"].tolist() == [1]


class Wrong(Traffic):
    def __init__(self, answer: Any, **options: Any) -> None:
        super().__init__("wrong", **{"samples": [frame(2)], "slo_ms": SLO, **options})
        self.answer = answer

    def process(self, request: Any) -> Any:
        return self.answer(self, request)


def chain(app: Wrong, request: Any) -> Any:
    for _ in range(5):
        app.detector.execute(request).result()
    return 1


def broken(app: Wrong, request: Any) -> Any:
    return [app.detector.execute(request).result(), len(request.shape[0])]


def misfit(app: Wrong, request: Any) -> Any:
    return app.cars.execute(request).result()


def silent(_app: Wrong, _request: Any) -> Any:
    return 1


@pytest.mark.parametrize(
    ("answer", "options", "error", "why"),
    [
        (silent, {}, InvalidArgumentError, "must make application 'wrong' call a model"),
        (chain, {}, InvalidArgumentError, "5 times in a row"),
        (broken, {}, InvalidArgumentError, "samples.0.: TypeError"),
        (misfit, {}, InvalidArgumentError, "must have the shape"),
        (Traffic.process, {"slo_ms": 19}, InfeasibleError, "boxes 10, kind 10"),
        (Traffic.process, {"samples": []}, InvalidArgumentError, "at least one request"),
        (Traffic.process, {"samples": [np.ones(2)]}, InvalidArgumentError, "samples.0.: BadRequestError"),
        (Traffic.process, {"split": "model"}, InvalidArgumentError, r"split must be .*, got 'model'"),
        (Traffic.process, {"slo_ms": 0}, InvalidArgumentError, "slo_ms"),
    ],
)
def test_what_cannot_be_deployed(spark: SparkSession, answer: Any, options: Any, error: Any, why: str) -> None:
    server = models(Server(spark, backends=1))
    with pytest.raises(error, match=why):
        server.deploy(Wrong(answer, **options))


def test_models_come_first_and_names_are_taken_once(spark: SparkSession) -> None:
    server = Server(spark, backends=1)
    with pytest.raises(InvalidArgumentError, match="must be a deployed session, got 'boxes'"):
        server.deploy(Traffic("traffic", samples=[frame(2)], slo_ms=SLO))
    models(server)
    with pytest.raises(InvalidArgumentError, match="got 'kind', which a session has already"):
        server.deploy(Sleeper("kind", samples=[frame(0)], slo_ms=SLO))
    server.deploy(Sleeper("sleeper", samples=[frame(0)], slo_ms=SLO))
    with pytest.raises(InvalidArgumentError, match="got 'sleeper', which an application has already"):
        server.deploy(Session("sleeper", model=kind, inputs=PART, profile=PROFILE, slo_ms=SLO))
    with pytest.raises(InvalidArgumentError, match="must be called in setup"):
        Sleeper("late", samples=[frame(0)]).model("boxes")
    app = Sleeper("late", samples=[frame(0)])
    app.prepare(["boxes"])
    with pytest.raises(InvalidArgumentError, match="is not deployed"):
        app.process(frame(0))
