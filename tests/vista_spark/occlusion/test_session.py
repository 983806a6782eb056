"""A network that stays open between requests: views, threads, cancellation, coordinates of the photograph."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from optimizer.errors import CerebroError
from vista_spark import Progress, explain_image, explain_image_sizes, open_explainer, roster
from vista_spark.errors import ExplanationCancelledError, InvalidArgumentError
from vista_spark.occlusion import OcclusionOptions
from vista_spark.occlusion._options import ImageKeywords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vista_spark import ExplainerSession

torch = pytest.importorskip("torch")

from udfs.incremental import IncrementalNetwork

SIDE = 64
PICTURE = np.random.default_rng(0).normal(size=(3, SIDE, SIDE)).astype(np.float32)
COMMON: dict[str, Any] = {"patch_size": 16, "stride": 8}


@pytest.fixture
def explainer() -> Iterator[ExplainerSession]:
    with open_explainer("squeezenet1_1", image_size=SIDE) as opened:
        yield opened


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened and run since: a network is loaded, an image's views are made."""
    noted: list[str] = []
    load, materialise = roster.load, IncrementalNetwork.materialise
    monkeypatch.setattr(roster, "load", lambda *given, **more: noted.append("load") or load(*given, **more))
    monkeypatch.setattr(IncrementalNetwork, "materialise", lambda *given: noted.append("run") or materialise(*given))
    return noted


def test_a_second_request_opens_and_runs_nothing_again(runs: list[str]) -> None:
    with open_explainer("squeezenet1_1", image_size=SIDE) as explainer:
        assert runs == ["load"]
        whole = explainer.explain(PICTURE, **COMMON)
        region = ((8, 56), (16, 64))
        part = explainer.explain(PICTURE, region=region, target=7, **COMMON)
        patches = explainer.explain_sizes(PICTURE, patch_sizes=(8, 32))
        several = explainer.explain_targets(PICTURE, targets=(7, 9), region=region, **COMMON)
        naive = explainer.explain(PICTURE, mode="naive", **COMMON)
        assert runs == ["load", "run"]
        other = explainer.explain(PICTURE + 1, **COMMON)
        assert runs == ["load", "run", "run"]
    common = {"image_size": SIDE, **COMMON}
    for found, alone in (
        (whole, explain_image(PICTURE, "squeezenet1_1", **common)),
        (part, explain_image(PICTURE, "squeezenet1_1", region=region, target=7, **common)),
        (several[0], part),
        (naive, whole),
        (other, explain_image(PICTURE + 1, "squeezenet1_1", **common)),
        (patches[1], explain_image_sizes(PICTURE, "squeezenet1_1", image_size=SIDE, patch_sizes=(8, 32))[1]),
    ):
        assert np.ptp(alone.heat_map) > 1e-5
        np.testing.assert_allclose(found.heat_map, alone.heat_map, atol=1e-5 if found is naive else 1e-6)
        assert (found.target, found.probability) == (alone.target, pytest.approx(alone.probability, rel=1e-5))


def test_views_of_the_picture_used_longest_ago_are_dropped(runs: list[str]) -> None:
    with open_explainer("squeezenet1_1", image_size=SIDE, view_bytes=2**40) as explainer:
        for shift in (0, 1, 0, 1):
            explainer.explain(PICTURE + shift, stride=16)
        assert runs.count("run") == 2
    runs.clear()
    with open_explainer("squeezenet1_1", image_size=SIDE, view_bytes=0) as explainer:
        for shift in (0, 0, 1, 0):
            explainer.explain(PICTURE + shift, stride=16)
        assert runs.count("run") == 3, "the last picture stays"


def test_levels_are_computed_for_those_who_watch_them(
    explainer: ExplainerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    outputs = IncrementalNetwork.outputs

    def noted(network: Any, views: Any, fill: Any, *, places: Any, **more: Any) -> Any:
        asked.append(int(places.sum()))
        return outputs(network, views, fill, places=places, **more)

    monkeypatch.setattr(IncrementalNetwork, "outputs", noted)
    explainer.explain(PICTURE, **COMMON)
    assert asked == [49], "one level has the fullest batches"
    asked.clear()
    explainer.explain(PICTURE, on_update=lambda _: None, **COMMON)
    assert asked == [4, 12, 33]


def test_bfloat16_has_views_of_its_own(explainer: ExplainerSession, runs: list[str]) -> None:
    exact = explainer.explain(PICTURE, **COMMON)
    options: dict[str, Any] = {"mode": "approximate", "tau": 1.0, "target_speedup": 1.0}
    lean = explainer.explain(PICTURE, precision="bfloat16", **options, **COMMON)
    again = explainer.explain(PICTURE, **options, **COMMON)
    # Float32's, bfloat16's, and float32's once more for the places that tell how alike the two are.
    assert runs == ["run"] * 3
    assert not np.array_equal(lean.heat_map, exact.heat_map)
    np.testing.assert_allclose(again.heat_map, exact.heat_map, atol=1e-6)


def test_progress_shows_a_picture_that_grows_finer(explainer: ExplainerSession) -> None:
    seen: list[Progress] = []
    found = explainer.explain(PICTURE, stride=4, batch_size=8, on_progress=seen.append)
    done = [each.done for each in seen]
    assert done == sorted(done)
    assert done[0] <= 4
    assert done[-1] == seen[-1].total == found.heat_map.size
    for each in seen:
        known = ~np.isnan(each.heat_map)
        np.testing.assert_array_equal(each.heat_map[known], found.heat_map[known])
        assert each.seconds_left >= 0
        assert each.seconds > 0
        if each.done >= 4:
            assert not np.isnan(each.filled()).any()
    errors = [np.abs(each.filled() - found.heat_map).mean() for each in seen if each.done >= 4]
    assert errors[-1] == 0 < errors[0]


def test_another_thread_cancels(explainer: ExplainerSession) -> None:
    begun, ended = threading.Event(), dict[str, Any]()

    def request(name: str, **options: Any) -> None:
        try:
            ended[name] = explainer.explain(PICTURE, stride=1, batch_size=4, **options)
        except CerebroError as error:
            ended[name] = error

    runner = threading.Thread(target=request, args=("runs",), kwargs={"on_update": lambda _: begun.set()})
    runner.start()
    assert begun.wait(60)
    waiter = threading.Thread(target=request, args=("waits",))
    waiter.start()
    deadline = time.monotonic() + 60
    while len(explainer._requests) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert explainer.cancel() == 2
    for thread in (runner, waiter):
        thread.join(60)
    runs, waits = ended["runs"], ended["waits"]
    assert isinstance(runs, ExplanationCancelledError)
    assert runs.heat_map is not None
    assert 0 < np.isfinite(runs.heat_map).sum() < runs.heat_map.size
    assert isinstance(waits, ExplanationCancelledError)
    assert waits.heat_map is None
    assert explainer.cancel() == 0
    assert np.isfinite(explainer.explain(PICTURE, stride=16).heat_map).all(), "the session goes on"


def test_an_event_cancels_its_own_request_alone(explainer: ExplainerSession) -> None:
    event = threading.Event()
    batches: list[int] = []

    def after_two(progress: Progress) -> None:
        batches.append(progress.done)
        if len(batches) == 2:
            event.set()

    with pytest.raises(ExplanationCancelledError, match=r"cancelled after \d+ of 169 places") as raised:
        explainer.explain(PICTURE, stride=4, batch_size=4, on_progress=after_two, cancel=event)
    assert len(batches) == 2, "no batch more"
    assert raised.value.heat_map is not None
    assert np.isfinite(raised.value.heat_map).sum() == batches[-1]
    with pytest.raises(ExplanationCancelledError, match="before the first place"):
        explainer.explain(PICTURE, stride=4, cancel=event)
    assert explainer.explain(PICTURE, stride=16, cancel=threading.Event()).heat_map.shape == (4, 4)


def test_requests_of_several_threads_are_computed_one_after_the_other(explainer: ExplainerSession) -> None:
    alone = [explainer.explain(PICTURE, target=target, **COMMON) for target in range(3)]
    running: list[int] = []
    found: dict[int, Any] = {}

    def request(target: int) -> None:
        def update(_: object) -> None:
            running.append(target)

        found[target] = explainer.explain(PICTURE, target=target, on_update=update, **COMMON)

    threads = [threading.Thread(target=request, args=(target,)) for target in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for target in range(3):
        np.testing.assert_allclose(found[target].heat_map, alone[target].heat_map, atol=1e-6)
    changes = sum(one != other for one, other in pairwise(running))
    assert changes == 2, "no two requests share the network at a time"


def test_a_closed_session_says_so(explainer: ExplainerSession) -> None:
    explainer.explain(PICTURE, stride=16)
    explainer.close()
    explainer.close()
    with pytest.raises(InvalidArgumentError, match="the session is closed; open another one"):
        explainer.explain(PICTURE, stride=16)


@pytest.mark.parametrize("size", [(120, 200), (170, 90)])
def test_regions_and_places_count_pixels_of_the_photograph(
    explainer: ExplainerSession, tmp_path: Path, size: tuple[int, int]
) -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (*size, 3), np.uint8)
    path = tmp_path / "photograph.png"
    Image.fromarray(pixels).save(path)
    geometry = explainer.geometry(path)
    assert geometry.size == size
    region = ((size[0] // 4, size[0] // 4 * 3), (size[1] // 4, size[1] // 4 * 3))
    found = explainer.explain(path, region=region, coordinates="photograph", **COMMON)
    mapped = geometry.to_input(region)
    alone = explainer.explain(path, region=mapped, **COMMON)
    np.testing.assert_array_equal(found.heat_map, alone.heat_map)
    assert found.grid.region == mapped
    # The first and the last place lie where the region of the photograph begins and ends, but for a pixel's width.
    last = (found.heat_map.shape[0] - 1, found.heat_map.shape[1] - 1)
    (top, _), (left, _) = found.covered(0, 0)
    (_, bottom), (_, right) = found.covered(*last)
    factor = max(extent / resized for extent, resized in zip(size, geometry.resized, strict=True))
    for at, wanted in zip((top, bottom, left, right), (*region[0], *region[1]), strict=True):
        assert abs(at - wanted) <= 2 * factor + 1
    written = json.loads(found.to_json())["photograph"]
    assert written["size"] == list(size)
    assert [written["rows"][0][0], written["rows"][-1][1]] == [top, bottom]
    assert [written["columns"][0][0], written["columns"][-1][1]] == [left, right]
    assert "photograph" not in json.loads(alone.to_json())
    assert alone.covered(0, 0) == ((mapped[0][0], mapped[0][0] + 16), (mapped[1][0], mapped[1][0] + 16))


def test_what_has_no_photograph_is_refused(explainer: ExplainerSession) -> None:
    with pytest.raises(InvalidArgumentError, match="image must be bytes or a path, got an array"):
        explainer.explain(PICTURE, coordinates="photograph")
    with pytest.raises(InvalidArgumentError, match=r"coordinates must be .*'photo'; did you mean 'photograph'"):
        explainer.explain(PICTURE, coordinates="photo")
    with pytest.raises(InvalidArgumentError, match="cancel must be an event"):
        explainer.explain(PICTURE, cancel=True)
    with pytest.raises(TypeError, match="has no parameter 'patchsize'; did you mean 'patch_size'"):
        explainer.explain(PICTURE, patchsize=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no parameter 'model'"):
        explainer.explain(PICTURE, model="squeezenet1_1")  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="model must be a network for images"):
        open_explainer("minilm_l6")


def test_options_serve_several_images_and_keywords_replace_them(explainer: ExplainerSession) -> None:
    options = OcclusionOptions(stride=16, target=7)
    mapped = explainer.explain(PICTURE, options)
    np.testing.assert_array_equal(mapped.heat_map, explainer.explain(PICTURE, stride=16, target=7).heat_map)
    assert explainer.explain(PICTURE, options, stride=8).heat_map.shape == (7, 7)
    assert [each.target for each in explainer.explain_targets(PICTURE, options, targets=(3, 4))] == [3, 4]
    (small,) = explainer.explain_sizes(PICTURE, options, patch_sizes=[16])
    np.testing.assert_array_equal(small.heat_map, mapped.heat_map)


def test_keywords_are_the_fields_of_the_options() -> None:
    assert ImageKeywords.__annotations__.keys() == {each.name for each in fields(OcclusionOptions)}
