"""Time limit of the user's code that the driver runs before a worker starts."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forty_rows import BACKEND, prepared

from cerebro_spark import ModelTrainer
from cerebro_spark.errors import TrainerError
from cerebro_spark.hopper import _trial_limit, check_trainer, probe
from udfs.requests import RequestCancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S = 0.5


def sleep() -> None:
    # In parts, so that the thread ends soon after it is told to.
    while True:
        time.sleep(0.05)


def lock() -> None:
    mutex = threading.Lock()
    mutex.acquire()
    while not mutex.acquire(timeout=0.05):
        pass


def loop() -> None:
    while True:
        pass


def network() -> None:
    ours, theirs = os.pipe()
    threading.Timer(LIMIT_S + 1, os.close, (theirs,)).start()
    os.read(ours, 1)
    os.close(ours)


HANGS = {"sleep": sleep, "lock": lock, "loop": loop, "a call of the system": network}


class Hanging(torch.nn.Module):
    """A network that hangs as it is built, as it runs, or in a step alone."""

    def __init__(self, params: dict[str, Any]) -> None:
        super().__init__()
        self.layer, self.params = torch.nn.Linear(1, 2), params
        if params.get("place") == "init":
            HANGS[params["hang"]]()

    def forward(self, x: Any) -> Any:
        place = self.params.get("place")
        if place == "forward" or (place == "step" and self.training):
            HANGS[self.params["hang"]]()
        return self.layer(x)


def trainer(params: dict[str, Any]) -> ModelTrainer:
    model, entropy = Hanging(params), torch.nn.functional.cross_entropy

    def loss(outputs: Any, labels: Any) -> Any:
        if params.get("place") == "loss":
            HANGS[params["hang"]]()
        return entropy(outputs, labels.long())

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return ModelTrainer(model=model, optimizer=optimizer, loss=loss, batch_size=8, task="multiclass")


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let torch import what it does at the first step."""
    probe(trainer, [{}], prepared(tmp_path_factory.mktemp("imported")), 0, BACKEND)


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Allow short limits, and check that the threads of a test end by themselves."""
    monkeypatch.setattr(_trial_limit, "_LEAST_S", 0.0)
    yield
    for thread in threading.enumerate():
        if thread.name == "trial":
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("hang", HANGS)
@pytest.mark.parametrize("place", ["init", "forward", "step", "loss"])
def test_a_trial_that_hangs_ends_after_the_limit(hang: str, place: str, tmp_path: Path) -> None:
    data, bad = prepared(tmp_path), {"hang": hang, "place": place}
    with pytest.raises(TrainerError, match=r"within 0\.5 seconds .*unit_timeout_s=0\.5") as refused:
        probe(trainer, [bad], data, 0, BACKEND, limit_s=LIMIT_S)
    said = str(refused.value)
    assert repr(bad) in said
    assert "test_trial_limit.py, in " in said
    assert "set unit_timeout_s to more than 0.5" in said


def test_a_configuration_that_hangs_is_passed_over(tmp_path: Path) -> None:
    data, bad = prepared(tmp_path), {"hang": "loop", "place": "loss"}
    assert probe(trainer, [bad, {"lr": 1}], data, 0, BACKEND, limit_s=5.0).params == {"lr": 1}


def test_the_function_alone_is_limited_before_data_are_prepared() -> None:
    bad = {"hang": "loop", "place": "init"}
    with pytest.raises(TrainerError, match="unit_timeout_s"):
        check_trainer(trainer, [bad], 0, "loss", LIMIT_S)
    check_trainer(trainer, [bad, {"lr": 1}], 0, "loss", 5.0)


def test_the_process_is_as_it_was_after_a_trial_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = prepared(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    def changes(params: dict[str, Any]) -> ModelTrainer:
        torch.set_default_dtype(torch.float64)
        np.seterr(all="ignore")
        os.environ["CEREBRO_TEST"] = "1"
        os.chdir("elsewhere")
        random.random(), np.random.rand(), torch.rand(1)  # a hang in the middle of all that
        return trainer(params)

    def state() -> Any:
        drawn = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        return drawn, torch.get_default_dtype(), np.geterr(), dict(os.environ), Path.cwd()

    before = state()
    with pytest.raises(TrainerError, match="unit_timeout_s"):
        probe(changes, [{"hang": "sleep", "place": "init"}], data, 0, BACKEND, limit_s=LIMIT_S)
    assert state() == before


def test_numpy_handles_errors_in_the_trial_as_the_user_has_set_it(tmp_path: Path) -> None:
    handled = []

    def reading(params: dict[str, Any]) -> ModelTrainer:
        handled.append(np.geterr()["divide"])
        return trainer(params)

    with np.errstate(divide="raise"):
        probe(reading, [{}], prepared(tmp_path), 0, BACKEND, limit_s=60.0)
    assert set(handled) == {"raise"}


@pytest.mark.parametrize("limit_s", [None, 600.0])
def test_an_interrupt_ends_the_trial(limit_s: float | None, tmp_path: Path) -> None:
    entered = threading.Event()

    def interrupt() -> None:
        entered.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    def hanging(params: dict[str, Any]) -> ModelTrainer:
        entered.set()
        return trainer(params)

    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            probe(hanging, [{"hang": "loop", "place": "init"}], prepared(tmp_path), 0, BACKEND, limit_s=limit_s)
    finally:
        signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize("started", [False, True])
def test_an_interrupt_while_the_thread_starts_ends_it(started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    start, ran = threading.Thread.start, threading.Event()

    def interrupted(thread: threading.Thread) -> None:
        if thread.name != "trial":
            start(thread)
        elif started:
            start(thread)
            assert ran.wait(30)
            raise KeyboardInterrupt
        else:
            raise KeyboardInterrupt

    def work() -> None:
        ran.set()
        loop()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _trial_limit.run_trial(work, {}, 600.0)


@pytest.mark.parametrize("limit_s", [None, 600.0])
def test_a_trial_that_never_returns_is_cancelled(limit_s: float | None) -> None:
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        try:
            sleep()
        finally:
            ended.set()

    def check() -> None:
        if began.is_set():
            raise RequestCancelled("cancelled")

    with pytest.raises(RequestCancelled), _trial_limit.cancellable_trials(check):
        _trial_limit.run_trial(work, {}, limit_s)
    assert ended.wait(30)


@pytest.mark.parametrize("limit_s", [float("inf"), 1e300])
def test_a_limit_without_an_end(limit_s: float) -> None:
    assert _trial_limit.run_trial(lambda: 3, {}, limit_s) == 3


@pytest.mark.parametrize("limit_s", [None, 60.0])
def test_a_long_trial_is_logged_once(
    limit_s: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_trial_limit, "_NOTICE_S", 0.2)

    def waits_for_the_notice(params: dict[str, Any]) -> ModelTrainer:
        made = trainer({})
        if params["slow"]:
            while "unit_timeout_s limits it" not in "\n".join(caplog.messages):
                time.sleep(0.01)
            time.sleep(0.5)
        return made

    with caplog.at_level(logging.WARNING):
        probe(waits_for_the_notice, [{"slow": True}], prepared(tmp_path), 0, BACKEND, limit_s=limit_s)
    notices = [text for text in caplog.messages if "has not trained its first step" in text]
    assert len(notices) == 1
    assert "{'slow': True}" in notices[0]
    assert "test_trial_limit.py, in waits_for_the_notice()" in notices[0]
    caplog.clear()
    monkeypatch.setattr(_trial_limit, "_NOTICE_S", 60.0)
    with caplog.at_level(logging.WARNING):
        probe(waits_for_the_notice, [{"slow": False}], prepared(tmp_path), 0, BACKEND, limit_s=limit_s)
    assert not caplog.messages


def test_a_first_trial_has_ten_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert probe(trainer, [{}], prepared(tmp_path), 0, BACKEND, limit_s=1e-9).params == {}


def test_errors_of_a_limited_trial_are_those_of_any_trial(tmp_path: Path) -> None:
    def raises(params: dict[str, Any]) -> ModelTrainer:
        raise KeyError("width")

    messages = []
    for limit_s in (None, 60.0):
        with pytest.raises(TrainerError) as refused:
            probe(raises, [{}], prepared(tmp_path), 0, BACKEND, limit_s=limit_s)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


def test_a_network_of_keras_opened_under_a_limit_works_elsewhere(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")

    def keras_trainer(params: dict[str, Any]) -> ModelTrainer:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])
        loss: Callable[..., Any] = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return ModelTrainer(model=model, optimizer=keras.optimizers.SGD(0.1), loss=loss, batch_size=8)

    data = prepared(tmp_path)
    drawn = [
        probe(keras_trainer, [{}], data, 0, BACKEND, limit_s=limit_s).session.checkpoint() for limit_s in (None, 300.0)
    ]
    assert drawn[0] == drawn[1]
