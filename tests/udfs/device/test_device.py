from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from device_catalogs import MB, SmallCatalog, photograph, small_catalog

from optimizer.approximate import Budget, CostCard, Scheduler, Task, UnservableError, split_cuts
from udfs.device import (
    DeviceClosedError,
    Installed,
    NoLinkError,
    SuffixClient,
    SuffixServer,
    VariantRunner,
    _link,
    open_variant,
    read_joules,
)
from udfs.serving import BadRequestError, OverloadedError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from optimizer.approximate import Option, State
    from optimizer.approximate import Request as ScheduledRequest


class Preferring:
    """Policy that prefers places by the beginning of their names."""

    landlord = True

    def __init__(self, *places: str) -> None:
        self.places = places

    def choose(self, request: ScheduledRequest, state: State) -> Option | None:
        admitted = [option for option in state.options[request.task] if state.admits(option, request)]
        return next((o for place in self.places for o in admitted if o.place.startswith(place)), None)

    def prefetch(self, request: ScheduledRequest, served: Option | None, state: State) -> Option | None:
        del request, served, state
        return None


class FakeCloud:
    """Cloud that computes in this process, or fails."""

    def __init__(self, catalog: SmallCatalog) -> None:
        self.catalog = catalog
        self.error: Exception | None = None
        self.hangs = threading.Event()
        self.hangs.set()
        self.calls: list[float] = []

    def scores(self, task: str, variant: str, image: bytes, seconds: float) -> NDArray[Any]:
        assert task == "scene"
        self.calls.append(seconds)
        if not self.hangs.wait(seconds):
            raise TimeoutError("no answer")
        if self.error is not None:
            raise self.error
        return self.catalog.scores(variant, image)


@pytest.fixture
def scene(tmp_path: Path) -> SmallCatalog:
    return small_catalog(tmp_path, "scene", full=40 * MB, half=10 * MB)


def runner(
    scene: SmallCatalog, *places: str, memory: int = 60 * MB, cloud: Any = None, suffix: Any = None
) -> VariantRunner:
    models = {each.name: each.model for each in scene.catalog}
    cuts = {name: split_cuts(open_variant(model).graph) for name, model in models.items()} if suffix else {}
    variants = tuple(
        replace(
            each.measurement.variant(CostCard(), sent_bytes=1000),
            splits=tuple(cut.split(0.05) for cut in cuts.get(each.name, ())),
        )
        for each in scene.catalog
    )
    scheduler = Scheduler([Task("scene", variants)], Budget(1000, memory, 1.0), Preferring(*places))
    return VariantRunner({"scene": Installed(models, scene.catalog.classes, cuts)}, scheduler, cloud, suffix)


def test_the_cloud_answers_and_is_charged(scene: SmallCatalog) -> None:
    device, image = runner(scene, "cloud", cloud=FakeCloud(scene)), photograph(1)
    answer = device.submit("scene", image).result(60)
    assert (answer.place, answer.variant) == ("cloud", "full")
    np.testing.assert_array_equal(answer.scores, scene.scores("full", image))
    assert answer.dollars > 0
    assert device.dollars == 1.0 - answer.dollars
    assert device.joules == 1000 - answer.joules
    assert device.memory_bytes == 0
    device.close()
    with pytest.raises(DeviceClosedError):
        device.submit("scene", image)


@pytest.mark.parametrize("error", [ConnectionResetError("lost"), OverloadedError("busy"), RuntimeError("fault")])
def test_the_device_answers_alone_after_a_failed_call(
    scene: SmallCatalog, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_link, "_FIRST_PAUSE", 600.0)
    cloud, image = FakeCloud(scene), photograph(1)
    device = runner(scene, "cloud", "device", cloud=cloud)
    cloud.error = error
    answer = device.submit("scene", image).result(60)
    assert answer.place == "device"
    np.testing.assert_allclose(answer.scores, scene.scores(answer.variant, image), atol=1e-5)
    assert not device.connected
    # The failed attempt stays charged.
    assert answer.dollars > 0
    calls = len(cloud.calls)
    assert device.submit("scene", image).result(60).place == "device"
    assert len(cloud.calls) == calls
    cloud.error = None
    monkeypatch.setattr(device._link, "_retry_at", 0.0)
    assert device.submit("scene", image).result(60).place == "cloud"
    assert device.connected
    device.close()


def test_the_device_answers_before_the_deadline_if_the_cloud_hangs(scene: SmallCatalog) -> None:
    cloud = FakeCloud(scene)
    device = runner(scene, "cloud", "device", cloud=cloud)
    cloud.hangs.clear()
    answer = device.submit("scene", photograph(1), 1.0).result(60)
    assert answer.place == "device"
    # The rest is for the device's own load and run, the faster of which is that of the half variant.
    assert cloud.calls[0] <= 1.0 - 0.055
    device.close()


def test_an_image_that_the_cloud_refuses_is_not_repeated(scene: SmallCatalog) -> None:
    cloud = FakeCloud(scene)
    cloud.error = BadRequestError("no image")
    device = runner(scene, "cloud", "device", cloud=cloud)
    with pytest.raises(BadRequestError):
        device.submit("scene", b"").result(60)
    assert device.connected
    device.close()


@pytest.mark.parametrize("place", ["cloud", "device"])
def test_other_classes_than_scores_are_an_error(scene: SmallCatalog, place: str) -> None:
    other = replace(scene, catalog=replace(scene.catalog, classes=("a", "b")))
    device = runner(other, place, cloud=FakeCloud(scene))
    with pytest.raises(ValueError, match="classes of 'scene' must be 5 labels"):
        device.submit("scene", photograph(1)).result(60)
    device.close()


def test_a_variant_that_only_the_cloud_can_run_needs_the_link(scene: SmallCatalog) -> None:
    cloud = FakeCloud(scene)
    cloud.error = ConnectionRefusedError("port is closed")
    device = runner(scene, "cloud", "device", memory=5 * MB, cloud=cloud)
    with pytest.raises(NoLinkError, match=r"'scene' needs the cloud, which cannot be reached \(port is closed\)"):
        device.submit("scene", photograph(1)).result(60)
    device.close()


def test_a_split_request_equals_the_network_and_survives_a_lost_link(scene: SmallCatalog) -> None:
    image = photograph(2)
    models = {each.name: each.model for each in scene.catalog}
    server = SuffixServer({"scene": Installed(models, scene.catalog.classes)}, token="secret")
    # A prefix of the full variant and the half variant fit together; two full ones do not.
    device = runner(scene, "split", "device", cloud=FakeCloud(scene), suffix=SuffixClient(server.address, "secret"))
    answer = device.submit("scene", image).result(60)
    assert answer.place.startswith("split 0.")
    np.testing.assert_allclose(answer.scores, scene.scores("full", image), rtol=1e-5, atol=1e-6)
    server.shutdown()
    futures = [device.submit("scene", photograph(seed)) for seed in range(6)]
    for seed, future in enumerate(futures):
        alone = future.result(60)
        assert alone.place == "device"
        np.testing.assert_allclose(alone.scores, scene.scores(alone.variant, photograph(seed)), atol=1e-5)
    assert device.peak_memory_bytes <= 60 * MB
    device.close()


def test_requests_of_a_closing_device_are_answered(scene: SmallCatalog) -> None:
    device = runner(scene, "device")
    futures = [device.submit("scene", photograph(1)) for _ in range(20)]
    device.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert device.memory_bytes == 0


def test_a_full_disk_leaves_the_other_variants(scene: SmallCatalog) -> None:
    def full_disk() -> Any:
        raise OSError(28, "No space left on device")

    entry = scene.catalog.full
    broken = replace(entry, model=replace(entry.model, builder=full_disk, weights=None))
    catalog = replace(scene.catalog, variants=(broken, scene.catalog["half"]))
    device = runner(replace(scene, catalog=catalog), "device")
    assert device.submit("scene", photograph(1)).result(60).variant == "half"
    assert "No space left on device" in str(device.failures["scene", "full"])
    device.close()


def test_a_deadline_that_passes_in_the_queue_is_an_error(scene: SmallCatalog) -> None:
    device = runner(scene, "device")
    blocker = device.submit("scene", photograph(1))
    late = [device.submit("scene", photograph(1), 1e-6) for _ in range(3)]
    assert blocker.result(60).place == "device"
    for future in late:
        with pytest.raises(UnservableError, match="after the wait for other requests"):
            future.result(60)
    device.close()


def test_energy_is_the_sum_of_the_packages(tmp_path: Path) -> None:
    assert read_joules(tmp_path) is None
    for name, energy in [("intel-rapl:0", 2_500_000), ("intel-rapl:1", 1_000_000), ("intel-rapl:0:0", 9_000_000)]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text(f"{energy}\n")
    assert read_joules(tmp_path) == 3.5
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert read_joules(tmp_path) is None


def test_the_pause_of_a_lost_link_doubles_up_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(_link.time, "monotonic", lambda: now)
    link = _link.Link()
    pauses = []
    for _ in range(9):
        assert link.connected
        link.record_failure(ConnectionError())
        link.record_failure(ConnectionError())  # a concurrent call, which counts once
        start = now
        while not link.connected:
            now += 0.25
        pauses.append(now - start)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    link.record_success()
    link.record_failure(ConnectionError())
    now += 0.5
    assert link.connected
