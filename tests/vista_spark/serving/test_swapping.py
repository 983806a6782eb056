"""The control loop over backends of this process: versions swapped under load, backends by traffic."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from waiting import until

from optimizer.serving import BatchingProfile
from udfs.rpc import Endpoint, new_credentials
from udfs.serving import (
    Backend,
    BackendSpec,
    Deliveries,
    Link,
    LiveRouter,
    NoSuchModelError,
    OverloadedError,
    TensorSpec,
)
from udfs.store import Store
from vista_spark.serving import Session
from vista_spark.serving._catalog import Deployed
from vista_spark.serving._control_loop import Control
from vista_spark.serving._plan_log import NoLog
from vista_spark.serving._scaling import Scaling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

SECONDS = 30.0
X = TensorSpec("x", "float32", (-1, 2))
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})
ROW = {"x": np.ones((1, 2), np.float32)}


def times(factor: float, seconds: float = 0.0) -> Callable[[Any], Any]:
    def run(arrays: Any) -> Any:
        time.sleep(seconds)
        return {"y": factor * arrays["x"]}

    return run


def session(model: Any, version: str = "1", name: str = "times", **options: Any) -> Session:
    return Session(name, model=model, inputs=[X], profile=PROFILE, slo_ms=20_000.0, version=version, **options)


class Log(NoLog):
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def planned(self, number: int, why: str, plan: Any, numbers: Mapping[str, float]) -> None:
        assert number >= 0
        assert numbers["seconds"] >= 0
        self.reasons.append(f"{why}; {0 if plan is None else len(plan.nodes)} busy")


class Serving:
    """Backends in threads, which come and go as those in Spark's tasks do."""

    took_s = 3.0

    def __init__(self, store: Store, scaling: Scaling, epoch_s: float, *sessions: Session) -> None:
        self.deliveries = Deliveries(store)
        self.deployed = Deployed(1, "cpu")
        for one in sessions:
            self.deployed.add(one)
        catalog = self.deployed.catalog(lambda one: one.recipe)
        self.recipes = catalog.recipes
        self.router = LiveRouter(catalog.offers)
        self.log = Log()
        self.control = Control(self.router, catalog, epoch_s, scaling, self.log, dollars_per_hour=1.0)
        self.router.missed = self.control.missed
        self.router.noticed = lambda *_: self.control.changed()
        self.credentials = new_credentials(encrypted=False)
        self.links: dict[str, Link] = {}
        self.backends: dict[str, tuple[Backend, Endpoint, threading.Thread]] = {}
        self.most = scaling.most

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(self.backends)

    def grow(self, count: int) -> tuple[str, ...]:
        free = [f"backend-{n}" for n in range(self.most) if f"backend-{n}" not in self.backends]
        for name in (added := free[: max(0, count - len(self.backends))]):
            backend = Backend(self.recipes, BackendSpec(deliveries=self.deliveries))
            thread = threading.Thread(target=backend.serve, daemon=True)
            endpoint = Endpoint("127.0.0.1", self.credentials, backend.protocol, backend.answer)
            self.backends[name] = backend, endpoint, thread
            thread.start()
            link = Link(name, endpoint.location, self.credentials, self.router)
            link.start()
            self.links = {**self.links, name: link}
            self.router.attach(link)
        self.control.changed()
        return tuple(added)

    def give_back(self, names: Collection[str]) -> None:
        for name in tuple(names):
            link = self.links[name]
            self.links = {other: held for other, held in self.links.items() if other != name}
            link.stop()
            backend, endpoint, thread = self.backends.pop(name)
            backend.stop()
            thread.join()
            endpoint.shutdown()

    def swap(self, one: Session) -> None:
        other = self.deployed.replaced(*self.deployed.open_session(one))
        catalog = other.catalog(lambda deployment: deployment.recipe)
        digests = {group: self.deliveries.send(own) for group, own in catalog.recipes.items()}
        self.control.swap(catalog, digests, f"deployed {one.name}")
        self.deployed = other

    def ask(self, name: str = "times", **options: Any) -> Any:
        return self.router.submit(name, ROW, **options)

    def answer(self, name: str = "times") -> float:
        return float(self.ask(name).result(SECONDS)["y"][0, 0])


@contextmanager
def serving(path: Path, scaling: Scaling, *sessions: Session, epoch_s: float = 60.0) -> Iterator[Serving]:
    one = Serving(Store.from_uri(str(path)), scaling, epoch_s, *sessions)
    one.grow(max(1, scaling.least))
    one.control.start(one)
    try:
        yield one
    finally:
        one.control.stop()
        one.give_back(one.wanted)
        one.router.stop()


def test_a_swap_under_load_loses_no_request(tmp_path: Path) -> None:
    with serving(tmp_path, Scaling(2, 2), session(times(2.0, 0.002)), session(times(5.0), name="other")) as one:
        over, asked = threading.Event(), []

        def ask() -> None:
            for _ in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
                asked.append(one.ask())
                time.sleep(0.001)

        thread = threading.Thread(target=ask)
        thread.start()
        until(lambda: len(asked) > 20)
        for version, factor in (("2", 3.0), ("3", 4.0)):
            one.swap(session(times(factor, 0.002), version))
            swapped = len(asked) + 1
            until(lambda count=swapped: len(asked) > count + 20)
        over.set()
        thread.join()
        found = [float(future.result(SECONDS)["y"][0, 0]) for future in asked]
        assert set(found) == {2.0, 3.0, 4.0}
        assert found == sorted(found), "what is asked later is never answered by an older version"
        assert found[swapped:] == [4.0] * len(found[swapped:])
        assert one.answer("other") == 5.0
        for link in one.links.values():
            assert set(link.placed) <= {"times@3", "other"}, "the old versions are closed"
        assert set(one.router.ended) == {("times", "answered"), ("other", "answered")}


def test_a_slow_answer_is_the_old_version_s_own(tmp_path: Path) -> None:
    entered, gate = threading.Event(), threading.Event()

    def slow(arrays: Any) -> Any:
        if arrays["x"].any():  # not the sample that it is warmed with
            entered.set()
            assert gate.wait(SECONDS)
            time.sleep(0.1)
        return {"y": 2 * arrays["x"]}

    with serving(tmp_path, Scaling(1, 1), session(slow)) as one:
        waiting = one.ask()
        assert entered.wait(SECONDS)
        queued = [one.ask() for _ in range(24)]
        swapping = threading.Thread(target=one.swap, args=(session(times(3.0), "2"),))
        swapping.start()
        time.sleep(0.2)
        assert not waiting.done()
        gate.set()
        swapping.join(SECONDS)
        assert not swapping.is_alive()
        assert {float(asked.result(SECONDS)["y"][0, 0]) for asked in (waiting, *queued)} == {2.0}
        assert one.answer() == 3.0


@dataclass
class Interrupted:
    """An admission during which something else happens."""

    admission: Any
    happens: Callable[[], None]

    def rows(self, inputs: Any) -> Any:
        rows = self.admission.rows(inputs)
        self.happens()
        return rows


@pytest.mark.parametrize("version", [None, "1"])
def test_a_request_that_comes_while_its_version_goes(tmp_path: Path, version: str | None) -> None:
    """Its rows are on no list yet when the old version is drained; HTTP asks again where it may have another one."""
    with serving(tmp_path, Scaling(1, 1), session(times(2.0))) as one:
        offer = one.router._offers["times"]
        admission = Interrupted(offer.admission, lambda: one.swap(session(times(3.0), "2")))
        one.router._offers["times"] = replace(offer, admission=admission)
        future = one.ask(version=version)
        if version is None:
            assert float(future.result(SECONDS)["y"][0, 0]) == 3.0
        else:
            with pytest.raises(NoSuchModelError, match="has replaced"):
                future.result(SECONDS)


def test_a_version_that_cannot_be_opened_leaves_the_old_one(tmp_path: Path) -> None:
    class Broken:
        def __call__(self, arrays: Any) -> Any:
            return arrays

        def __reduce__(self) -> Any:
            return eval, ("1 / 0",)

    with serving(tmp_path, Scaling(1, 1), session(times(2.0))) as one:
        with pytest.raises(RuntimeError, match="times@2: ZeroDivisionError"):
            one.swap(session(Broken(), "2"))
        assert [planned.name for planned in one.control.plan.sessions] == ["times"]
        assert one.answer() == 2.0
        assert set(one.links["backend-0"].placed) == {"times"}
        one.swap(session(times(3.0), "2"))
        assert one.answer() == 3.0


def positive(arrays: Any) -> Any:
    if (arrays["x"] <= 0).any():
        raise ValueError("must be above zero")
    return {"y": 3 * arrays["x"]}


@pytest.mark.parametrize("name", ["times", "added"])
def test_a_version_that_fails_on_its_warm_up_is_refused(tmp_path: Path, name: str) -> None:
    with serving(tmp_path, Scaling(1, 1), session(times(2.0))) as one:
        with pytest.raises(RuntimeError, match=r"must be above zero\. Set Session\(sample=\.\.\.\)"):
            one.swap(session(positive, "2", name))
        assert [model.version for model in one.router.models] == ["1"]
        assert one.answer() == 2.0
        assert set(one.links["backend-0"].placed) == {"times"}
        one.swap(session(positive, "2", name, sample=np.ones(2, np.float32)))
        assert one.answer(name) == 3.0


def test_a_model_that_fails_on_its_warm_up_alone_is_served(tmp_path: Path) -> None:
    with serving(tmp_path, Scaling(1, 1), session(positive)) as one:
        assert one.answer() == 3.0
        one.swap(session(times(2.0), name="added"))
        assert (one.answer(), one.answer("added")) == (3.0, 2.0)


def test_a_backend_that_comes_later_has_the_new_version(tmp_path: Path) -> None:
    with serving(tmp_path, Scaling(1, 2), session(times(2.0))) as one:
        one.swap(session(times(3.0), "2"))
        one.grow(2)
        until(lambda: len(one.control.plan.nodes) == 2 and "times@2" in one.links["backend-1"].placed)
        assert {one.answer() for _ in range(20)} == {3.0}


def test_a_session_is_added_and_an_old_version_is_not_there(tmp_path: Path) -> None:
    with serving(tmp_path, Scaling(1, 1), session(times(2.0))) as one:
        one.swap(session(times(7.0), name="added"))
        one.swap(session(times(3.0), "2"))
        assert (one.answer(), one.answer("added")) == (3.0, 7.0)
        with pytest.raises(LookupError, match="must be '2', got '1'"):
            one.ask(version="1")


def test_no_backend_without_traffic_and_one_with_it(tmp_path: Path) -> None:
    with serving(tmp_path, Scaling(0, 1), session(times(2.0)), epoch_s=0.2) as one:
        assert one.answer() == 2.0
        until(lambda: one.control.asleep and not one.backends)
        assert one.control.plan is None
        with pytest.raises(OverloadedError, match="Try again in 3 s"):
            one.ask().result(SECONDS)
        until(lambda: one.router.ready)
        assert one.answer() == 2.0
        assert any("no request came for 2 epochs; 0 busy" in why for why in one.log.reasons)


def test_backends_follow_the_traffic(tmp_path: Path) -> None:
    """Where a batch of eight takes 80 ms, 250 rows a second keep three busy."""
    slow = Session(
        "times", model=times(2.0, 0.001), inputs=[X], profile=BatchingProfile({1: 10.0, 8: 80.0}), slo_ms=400.0
    )
    with serving(tmp_path, Scaling(1, 4), slow, epoch_s=0.5) as one:
        over = threading.Event()

        def ask() -> None:
            while not over.wait(0.004):
                one.ask()

        thread = threading.Thread(target=ask)
        thread.start()
        until(lambda: len(one.links) >= 3 and len(one.control.plan.nodes) >= 3)
        over.set()
        thread.join()
        until(lambda: len(one.backends) == 1)
        assert one.answer() == 2.0
        answered = one.router.ended["times", "answered"]
        assert one.router.ended["times", "ModelFailedError"] == 0
        assert answered > 0
