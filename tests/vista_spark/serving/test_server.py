"""A server on a real Spark session: answers, errors, and the end of its jobs."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from pyspark import cloudpickle
from sessions import CONNECT

from optimizer.serving import BatchingProfile
from udfs.images import decode
from udfs.serving import BadRequestError, ModelFailedError, NoSuchModelError, RequestError, TensorSpec
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import network
from vista_spark.serving import Api, Server, Session

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from torch import nn

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The machine of the tests may be busy with others: what is in time is not asked here.
SLO = 60_000
SECONDS = 120.0
SIZE = 16
INPUTS = [TensorSpec("x", "float32", (-1, 2))]
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})
_ASKED = 7


def picky(arrays: Any) -> Any:
    if (arrays["x"] < 0).any():
        raise ValueError("below zero")
    return {"y": 2 * arrays["x"], "process": np.full(len(arrays["x"]), os.getpid())}


def small(seed: int, classes: int) -> nn.Module:
    torch.manual_seed(0)
    trunk = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten()]
    torch.manual_seed(seed)
    return torch.nn.Sequential(*trunk, torch.nn.Linear(32, classes)).eval()


def photograph() -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(3).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture(scope="module")
def networks() -> dict[str, nn.Module]:
    return {"cats": small(1, 2), "dogs": small(2, 3)}


@pytest.fixture(scope="module")
def server(spark: SparkSession, networks: dict[str, nn.Module]) -> Server:
    made = Server(spark, backends=1, epoch_s=2.0)
    made.deploy(Session("picky", model=picky, inputs=INPUTS, profile=PROFILE, slo_ms=SLO))
    for name, model in networks.items():
        made.deploy(Session(name, model=model, image_size=SIZE, profile=PROFILE, slo_ms=SLO))
    return made


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Api]:
    with server.start(timeout_s=600.0) as running:
        yield running
    assert not running.ready


def test_the_plan_has_networks_of_one_trunk_as_one(server: Server) -> None:
    plan = server.plan()
    assert [session.name for session in plan.sessions] == ["picky", "cats+dogs"]
    assert "backend-0: duty cycle" in plan.explain()


@pytest.mark.connect_slow
def test_answers_are_the_models_own(api: Api, networks: dict[str, nn.Module]) -> None:
    content = photograph()
    assert api.ready
    futures = {name: api[name].execute(content) for name in networks}
    for name, model in networks.items():
        tensor = decode(content, network(model, None, 0, SIZE).preprocessing)
        with torch.no_grad():
            own = model(torch.from_numpy(tensor[None]))[0].numpy()
        np.testing.assert_allclose(futures[name].result(SECONDS), own, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(api[name].execute(tensor).result(SECONDS), own, atol=1e-5, rtol=1e-5)


@pytest.mark.connect_slow
def test_another_process_answers_for_functions(api: Api) -> None:
    answer = api["picky"].execute(np.array([1, 2], np.float32)).result(SECONDS)
    np.testing.assert_array_equal(answer["y"], [2, 4])
    assert answer["process"] != os.getpid()


@pytest.mark.connect_slow
def test_bad_records_are_errors_of_their_own(api: Api, tmp_path: Path) -> None:
    good = api["cats"].execute(photograph())
    with pytest.raises(BadRequestError, match="not a JPEG, PNG"):
        api["cats"].execute(b"no image at all").result(SECONDS)
    with pytest.raises(BadRequestError, match="cannot be read"):
        api["cats"].execute(tmp_path / "absent.jpg")
    with pytest.raises(ModelFailedError, match="ValueError: below zero"):
        api["picky"].execute(np.array([-1, 2], np.float32)).result(SECONDS)
    with pytest.raises(NoSuchModelError, match="did you mean 'cats'"):
        api["cat"]
    assert good.result(SECONDS).shape == (2,)


def test_the_plan_follows_the_traffic(api: Api) -> None:
    before = api._control.epochs
    for future in [api["picky"].execute(np.ones(2, np.float32)) for _ in range(40)]:
        future.result(SECONDS)
    end = time.monotonic() + SECONDS
    while api._control.epochs == before:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert api.ready
    assert api["picky"].execute(np.ones(2, np.float32)).result(SECONDS)["y"].tolist() == [2, 2]


@pytest.mark.skipif(CONNECT, reason="once is enough")
def test_a_killed_backend_comes_back_and_nothing_waits_for_ever(api: Api) -> None:
    """The only one: what it had, and what comes before it is back, ends in an error at once."""
    process = int(api["picky"].execute(np.ones(2, np.float32)).result(SECONDS)["process"])
    os.kill(process, signal.SIGKILL)
    end = time.monotonic() + 3 * SECONDS
    errors = set()
    while True:
        assert time.monotonic() < end, errors
        try:
            answer = api["picky"].execute(np.ones(2, np.float32)).result(SECONDS)
        except RequestError as error:
            errors.add(type(error).__name__)
            time.sleep(0.2)
        else:
            if int(answer["process"]) != process:
                break
    assert errors <= {"OverloadedError"}
    assert api["cats"].execute(photograph()).result(SECONDS).shape == (2,)


@pytest.mark.connect_slow
def test_spark_has_its_slots_again(spark: SparkSession, api: Api) -> None:
    api.stop()
    assert not api.ready
    assert spark.range(0, 4, 1, 2).count() == 4
    with pytest.raises(RequestError, match="stopped"):
        api["picky"].execute(np.ones(2, np.float32)).result(SECONDS)


def test_a_slot_stays_free(spark: SparkSession) -> None:
    server = Server(spark, backends=2)
    server.deploy(Session("picky", model=picky, inputs=INPUTS, profile=PROFILE, slo_ms=SLO))
    with pytest.raises(InvalidArgumentError, match="backends must be at most 1"):
        server.start()


def test_models_run_beside_each_other_if_asked(spark: SparkSession, tmp_path: Path) -> None:
    def meets(own: str, other: str) -> Callable[[Any], Any]:
        def run(arrays: Any) -> Any:
            end = time.monotonic() + SECONDS
            if (arrays["x"] == _ASKED).all():  # no sample
                (tmp_path / own).touch()
                while not (tmp_path / other).exists():
                    if time.monotonic() > end:
                        raise TimeoutError(other)
                    time.sleep(0.01)
            return {"y": arrays["x"]}

        return run

    server = Server(spark, backends=1, parallel=True)
    for own, other in (("left", "right"), ("right", "left")):
        server.deploy(Session(own, model=meets(own, other), inputs=INPUTS, profile=PROFILE, slo_ms=2 * SLO))
    with server.start(timeout_s=600.0) as running:
        asked = np.full(2, _ASKED, np.float32)
        answers = [running[name].execute(asked) for name in ("left", "right")]
        assert [one.result(SECONDS).tolist() for one in answers] == [[_ASKED] * 2] * 2


def test_a_model_that_cannot_be_opened_ends_the_start(spark: SparkSession, tmp_path: Path) -> None:
    """Its head is gone by the time the backend reads it."""
    file = tmp_path / "head.safetensors"
    safetensors_torch.save_file(torch.nn.Linear(32, 2).state_dict(), file)
    server = Server(spark, backends=1)
    server.deploy(Session("cats", model=small(1, 2), head=file, image_size=SIZE, profile=PROFILE, slo_ms=SLO))
    file.write_bytes(b"nothing")
    with pytest.raises(Exception, match=r"cats: .*head\.safetensors"):
        server.start(timeout_s=600.0)
