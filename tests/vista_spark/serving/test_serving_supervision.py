"""The driver's loops of serving go on after an exception, and an application's exception fails its request."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from live_backends import SPEC, served
from waiting import until

from udfs.node import _supervised_thread
from udfs.serving import Admission, OverloadedError
from vista_spark.serving._applications import Applications
from vista_spark.serving._control_loop import Control
from vista_spark.serving._deployer import Deployer
from vista_spark.serving._scaling import Scaling

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 30.0


class Once:
    """A function that fails at its first call."""

    def __init__(self, result: Any = None) -> None:
        self.calls = 0
        self.result = result

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise ZeroDivisionError("injected")
        return self.result


@pytest.fixture(autouse=True)
def _short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_supervised_thread, "_PAUSE_S", 0.01)


def control() -> Control:
    router: Any = SimpleNamespace(arrived=Counter(), route=lambda _: None)
    catalog: Any = SimpleNamespace(sessions=[], members={"group": ("model",)}, offers=[], ladders={}, budgets={})
    log: Any = SimpleNamespace(planned=lambda *_: None, close=lambda: None)
    return Control(router, catalog, 0.02, Scaling(1, 1), log, dollars_per_hour=1.0)


@pytest.mark.parametrize("where", ["budgets", "rates"])
def test_the_epochs_go_on_after_an_exception(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, once = control(), Once({})
    pool: Any = SimpleNamespace(links={}, wanted=())
    if where == "budgets":
        made.budgets = once
    else:
        members = {"group": ()}
        monkeypatch.setattr(made, "_catalog", SimpleNamespace(members=SimpleNamespace(items=Once(members.items()))))
        once = made._catalog.members.items  # type: ignore[assignment]
    made.start(pool)
    until(lambda: once.calls > 3)
    made.stop()


def test_a_backend_that_could_not_be_asked_for_is_asked_for_again() -> None:
    made = control()
    made._scaling, grow = Scaling(0, 1), Once(())
    made._pool = SimpleNamespace(grow=grow, took_s=2.0)  # type: ignore[assignment]
    made._asleep = True
    assert made.missed() == 2.0
    until(lambda: made.asleep)
    made.missed()
    until(lambda: grow.calls == 2)
    assert not made.asleep


def test_aliases_are_followed_after_an_exception() -> None:
    class Deployed:
        looks = Once({})

        @property
        def deployments(self) -> Any:
            return self.looks()

    deployed: Any = Deployed()
    nothing: Any = None
    deployer = Deployer(nothing, deployed, nothing, None, None, 0.01)
    deployer.start()
    until(lambda: deployed.looks.calls > 3)
    deployer.stop()


@pytest.mark.parametrize("place", ["process", "count"])
def test_an_application_that_ends_its_thread_fails_its_request(place: str) -> None:
    def process(_: Any) -> Any:
        return sys.exit("no more") if place == "process" else {"y": 1}

    failures: list[BaseException] = []
    joined = SimpleNamespace(future=SimpleNamespace(done=lambda: False), fail=failures.append, answer=lambda *_: None)
    app = SimpleNamespace(name="app", process=process, outputs=())
    live = SimpleNamespace(deployed=SimpleNamespace(app=app), count=Once(), waiting=1)
    request: Any = SimpleNamespace(live=live, joined=joined)
    router: Any = None
    applications = Applications(router, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vista_spark.serving._applications.request_of", lambda *_: None)
        patch.setattr("vista_spark.serving._applications.outputs_of", lambda _, outputs: outputs)
        applications._run(request, 0, {})
    (failure,) = failures
    assert type(failure).__name__ == "ModelFailedError"
    assert ("SystemExit: no more" if place == "process" else "injected") in str(failure)
    applications.stop()


def deployed(name: str, process: Callable[[Any], Any]) -> Any:
    app = SimpleNamespace(name=name, process=process, outputs=(), calls=None)
    counts, split = SimpleNamespace(name=str), SimpleNamespace(budgets={}, reserves={})
    return SimpleNamespace(
        app=app, served=served(name, 60_000.0), admission=Admission(name, (SPEC,), {}), counts=counts, split=split
    )


def test_an_application_that_hangs_keeps_no_thread_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vista_spark.serving._applications.request_of", lambda _, row: row["x"])
    monkeypatch.setattr("vista_spark.serving._applications.outputs_of", lambda _, outputs: outputs)
    released = threading.Event()
    router: Any = None
    hangs = deployed("hangs", lambda _: released.wait(SECONDS) and {})
    applications = Applications(router, [hangs, deployed("good", lambda row: {"y": 2 * row})])
    one = {"x": np.ones((1, 2), np.float32)}
    try:
        stuck = [applications.submit("hangs", one) for _ in range(600)]
        refused = [future for future in stuck if future.done()]
        assert refused
        with pytest.raises(OverloadedError, match="512 requests already wait for application hangs"):
            refused[0].result()
        futures = [applications.submit("good", one) for _ in range(20)]
        assert [future.result(SECONDS)["y"].tolist() for future in futures] == [[[2, 2]]] * 20
        # A corrected version has threads of its own.
        applications.add(deployed("hangs", lambda row: {"y": row}))
        assert applications.submit("hangs", one).result(SECONDS)["y"].tolist() == [[1, 1]]
    finally:
        released.set()
        applications.stop()
