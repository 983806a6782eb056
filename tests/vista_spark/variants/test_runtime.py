from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import device_catalogs
import numpy as np
import pytest
import torch
from device_catalogs import MB, Residual, SmallCatalog, photograph, small_catalog
from pyspark import cloudpickle

from optimizer.approximate import UnservableError
from udfs.images import ImageError
from udfs.roster import card
from udfs.serving import BadRequestError
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Server, Session
from vista_spark.variants import CloudSuffix, Device, DeviceClosedError, DeviceProcess, served_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Compute on one thread: these networks are so small that more threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def scene(tmp_path: Path) -> SmallCatalog:
    return small_catalog(tmp_path, "scene", 1, full=40 * MB, half=10 * MB)


@pytest.fixture
def faces(tmp_path: Path) -> SmallCatalog:
    return small_catalog(tmp_path, "faces", 5, full=40 * MB, half=10 * MB)


@pytest.mark.parametrize(("policy", "joules"), [pytest.param("original", 400, marks=pytest.mark.slow), ("mcdnn", 150)])
def test_two_tasks_share_memory_for_a_single_full_variant(
    scene: SmallCatalog, faces: SmallCatalog, policy: str, joules: float
) -> None:
    both = {"scene": scene, "faces": faces}
    requests = [("scene" if number // 20 % 2 else "faces", photograph(number % 7)) for number in range(200)]
    catalogs = [each.catalog for each in both.values()]
    with Device(catalogs, memory_bytes=55 * MB, joules=joules, hours=0.01, policy=policy) as device:
        futures = [(task, image, device.submit(task, image)) for task, image in requests]
        answers, refused = [], 0
        for task, image, future in futures:
            try:
                answer = future.result(120)
            except UnservableError:
                refused += 1
                continue
            answers.append((task, answer))
            np.testing.assert_allclose(answer.scores, both[task].scores(answer.variant, image), atol=1e-5)
            assert answer.prediction == f"class {answer.scores.argmax()}"
            assert answer.place == "device"
        spent = joules - device.joules
        peak = device.peak_memory_bytes
    assert 0 < peak <= 55 * MB
    assert 0 <= spent <= joules
    assert sum(answer.joules for _, answer in answers) <= spent * (1 + 1e-9)
    if policy == "original":
        # Each burst of a task evicts the full variant of the other one.
        assert not refused
        assert {answer.variant for _, answer in answers} == {"full"}
        loads = [task for task, answer in answers if math.isclose(answer.joules, 1.0 + 40 * 0.03)]
        assert loads == ["faces", "scene"] * 5
    else:
        assert answers
        assert "half" in {answer.variant for _, answer in answers}


def test_the_present_variant_answers_while_a_better_one_loads(tmp_path: Path) -> None:
    ready = threading.Event()
    scene = small_catalog(tmp_path, "scene", 1, ready, full=40 * MB, half=10 * MB)
    with Device([scene.catalog], memory_bytes=55 * MB, joules=1_000_000, hours=0.001) as device:
        during = 0
        while during < 5:
            assert device.submit("scene", photograph(1)).result(60).variant == "half"
            during += device.memory_bytes == 50 * MB  # the load of the full variant has begun
        ready.set()
        for _ in range(600):
            answer = device.submit("scene", photograph(1)).result(60)
            if answer.variant == "full":
                break
            time.sleep(0.1)
        np.testing.assert_allclose(answer.scores, scene.scores("full", photograph(1)), atol=1e-5)


def test_a_better_variant_replaces_the_one_that_serves_the_request(scene: SmallCatalog) -> None:
    image = photograph(1)
    with Device([scene.catalog], memory_bytes=45 * MB, joules=1_000_000, hours=0.001) as device:
        variants = ["half"]
        while variants[-1] == "half":
            answer = device.submit("scene", image).result(60)
            np.testing.assert_allclose(answer.scores, scene.scores(answer.variant, image), atol=1e-5)
            variants.append(answer.variant)
        assert device.peak_memory_bytes == 40 * MB


def test_an_image_that_cannot_be_decoded_fails_only_its_request(scene: SmallCatalog) -> None:
    with Device([scene.catalog], memory_bytes=50 * MB, joules=100) as device:
        bad, good = device.submit("scene", b"no image"), device.submit("scene", photograph(1))
        with pytest.raises(ImageError):
            bad.result(60)
        assert good.result(60).place == "device"


def test_a_deadline_that_no_variant_meets_names_the_fastest(scene: SmallCatalog) -> None:
    with Device([scene.catalog], memory_bytes=50 * MB, joules=100) as device:
        with pytest.raises(UnservableError, match=r"deadline_s of 'scene' must leave at least 0\.012 seconds"):
            device.submit("scene", photograph(1), deadline_s=1e-4).result(60)
        with pytest.raises(InvalidArgumentError, match="deadline_s must be above 0"):
            device.submit("scene", photograph(1), deadline_s=0)
        with pytest.raises(InvalidArgumentError, match="task must be one of scene"):
            device.submit("faces", photograph(1))


@pytest.mark.parametrize("budget", [{"memory_bytes": 1, "joules": 10}, {"memory_bytes": 50 * MB, "joules": 0}])
def test_budgets_that_pay_for_nothing_are_refused_at_the_start(scene: SmallCatalog, budget: dict[str, int]) -> None:
    with pytest.raises(UnservableError, match="budget must pay for a request of 'scene'"):
        Device([scene.catalog], **budget)  # type: ignore[arg-type]


def test_an_exhausted_budget_ends_requests_with_the_remaining_joules(scene: SmallCatalog) -> None:
    with Device([scene.catalog], memory_bytes=50 * MB, joules=1.0, policy="best") as device:
        futures = [device.submit("scene", photograph(1)) for _ in range(10)]
        errors = [future.exception(60) for future in futures]
        assert errors[0] is None
        assert "must fit the remaining budgets of" in str(errors[-1])
        assert device.joules >= 0


@pytest.mark.parametrize("fault", ["missing", "corrupt"])
def test_another_variant_answers_for_a_file_that_cannot_be_read(scene: SmallCatalog, fault: str) -> None:
    file = scene.files["full"]
    file.unlink() if fault == "missing" else file.write_bytes(b"no weights")
    with Device([scene.catalog], memory_bytes=50 * MB, joules=1000, policy="original") as device:
        image = photograph(1)
        with pytest.raises(UnservableError):
            # Original knows a single variant.
            device.submit("scene", image).result(60)
        assert list(device.failures) == [("scene", "full")]
    with Device([scene.catalog], memory_bytes=50 * MB, joules=1_000_000, hours=0.001) as device:
        answers = [device.submit("scene", image).result(60) for _ in range(8)]
        assert {answer.variant for answer in answers} == {"half"}
    scene.files["half"].write_bytes(b"no weights")
    with (
        Device([scene.catalog], memory_bytes=50 * MB, joules=1000) as device,
        pytest.raises(UnservableError, match=r"A variant of 'scene' must be loadable, got"),
    ):
        device.submit("scene", image).result(60)


def test_a_server_is_the_cloud_of_a_device(
    scene: SmallCatalog, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    # Workers cannot import the modules of tests.
    cloudpickle.register_pickle_by_value(device_catalogs)
    request.addfinalizer(lambda: cloudpickle.unregister_pickle_by_value(device_catalogs))
    server = Server(spark, backends=1)
    for variant in scene.catalog:
        server.deploy(Session(served_name("scene", variant.name), model=variant.model, slo_ms=20_000))
    image = photograph(1)
    options = {"memory_bytes": 50 * MB, "joules": 100, "dollars": 1.0, "policy": "server-first"}
    with server.start(timeout_s=600, port=0) as api:
        for cloud in (api, api.url):
            with Device([scene.catalog], cloud=cloud, token=api.token, **options) as device:
                answer = device.submit("scene", image).result(60)
                assert answer.place == "cloud"
                np.testing.assert_allclose(answer.scores, scene.scores(answer.variant, image), rtol=1e-5, atol=1e-6)
                assert device.dollars == 1.0 - answer.dollars < 1.0
                if isinstance(cloud, str):
                    with pytest.raises(BadRequestError):
                        device.submit("scene", b"no image").result(60)
        lost = Device([scene.catalog], cloud=api.url, token=api.token, **options)
    # The server has stopped.
    with lost:
        answer = lost.submit("scene", image).result(60)
        assert answer.place == "device"
        assert answer.dollars > 0  # the attempt
        np.testing.assert_allclose(answer.scores, scene.scores(answer.variant, image), rtol=1e-5, atol=1e-6)


def test_a_split_without_a_cloud_and_text_models_are_refused(scene: SmallCatalog) -> None:
    with pytest.raises(InvalidArgumentError, match="suffix must be None without a cloud"):
        Device([scene.catalog], memory_bytes=50 * MB, joules=100, suffix="grpc://127.0.0.1:1")
    with pytest.raises(InvalidArgumentError, match="url must be an address such as"):
        Device([scene.catalog], memory_bytes=50 * MB, joules=100, cloud="127.0.0.1:80")
    entry = scene.catalog.full
    text = replace(entry, model=replace(entry.model, preprocessing=card("minilm_l6").preprocessing))
    catalog = replace(scene.catalog, variants=(text,))
    for make in (partial(Device, [catalog], memory_bytes=50 * MB, joules=100), partial(CloudSuffix, [catalog])):
        with pytest.raises(InvalidArgumentError, match="'full' of 'scene' must read one image"):
            make()


def test_split_options_reach_the_scheduler(scene: SmallCatalog) -> None:
    with CloudSuffix([scene.catalog], token="secret") as suffix:
        device = Device(
            [scene.catalog],
            memory_bytes=50 * MB,
            joules=100,
            dollars=1,
            cloud="http://127.0.0.1:9",
            suffix=suffix.address,
            token=suffix.token,
        )
        with device:
            places = {option.place for options in device._runner._scheduler.state.options for option in options}
            answer = device.submit("scene", photograph(1)).result(60)
        assert {place.split()[0] for place in places} == {"device", "cloud", "split"}
        np.testing.assert_allclose(answer.scores, scene.scores(answer.variant, photograph(1)), rtol=1e-5, atol=1e-6)


def test_a_process_limits_the_memory_that_a_measurement_hides(scene: SmallCatalog) -> None:
    entry = scene.catalog.full
    # 600 MB of weights, which the catalog says to be 40 MB.
    large = replace(entry, model=replace(entry.model, builder=partial(Residual, 4096), weights=None))
    catalog = replace(scene.catalog, variants=(large, scene.catalog["half"]))
    image = photograph(1)
    with DeviceProcess(
        [catalog], memory_bytes=55 * MB, joules=1_000_000, hours=0.001, hard_limit_bytes=300 * MB
    ) as device:
        for _ in range(5):
            answer = device.submit("scene", image).result(120)
            assert answer.variant == "half"
            np.testing.assert_allclose(answer.scores, scene.scores("half", image), rtol=1e-5, atol=1e-6)
        with pytest.raises(ImageError):
            device.submit("scene", b"no image").result(60)
        with pytest.raises(InvalidArgumentError, match="task must be one of scene"):
            device.submit("faces", image).result(60)
        assert device.status()["peak_memory_bytes"] <= 55 * MB
        assert os.getsid(device._process.pid) == device._process.pid  # interrupts of a notebook do not reach it
        waiting = device.submit("scene", image)
        device._process.kill()
        with pytest.raises(DeviceClosedError):
            [future.result(60) for future in (waiting, *(device.submit("scene", image) for _ in range(50)))]
        assert isinstance(device.submit("scene", image).exception(60), DeviceClosedError)
    with pytest.raises(DeviceClosedError):
        device.status()
    with pytest.raises(InvalidArgumentError, match="cloud must be the HTTP address of a server"):
        DeviceProcess([scene.catalog], memory_bytes=1, joules=1, cloud=object())


@pytest.mark.slow  # a process that starts
def test_a_process_raises_the_error_of_its_start(scene: SmallCatalog) -> None:
    with pytest.raises(UnservableError, match="budget must pay"):
        DeviceProcess([scene.catalog], memory_bytes=1, joules=1)
