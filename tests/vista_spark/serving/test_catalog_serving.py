"""Sessions with a catalog of variants on a real Spark session; the variants sleep as long as a table says."""

from __future__ import annotations

import io
import json
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from pyspark import cloudpickle
from waiting import until

from optimizer.serving import BatchingProfile, InfeasibleError
from optimizer.variants import Measurement
from udfs.images import decode
from udfs.serving import OpenModels, RequestError, Results, Row, TensorSpec
from udfs.serving._backend import _answers
from udfs.serving._batch_scheduler import Waiting
from udfs.serving._texts import from_wire
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import network
from vista_spark.serving import ModelStore, Server, Session, profile_batches
from vista_spark.serving._catalog import Deployed
from vista_spark.serving._spending import Spending
from vista_spark.variants import Catalog, CatalogVariant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUTS = [TensorSpec("x", "float32", (-1, 1))]
ROW = np.zeros(1, np.float32)
SECONDS = 60.0


@dataclass(frozen=True)
class Emulated:
    """A function of whole batches that takes a fixed time per row."""

    value: float
    row_s: float

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        count = len(arrays["x"])
        time.sleep(count * self.row_s)
        return {"y": np.full(count, self.value)}


def variant(name: str, accuracy: float, model: Any, row_s: float) -> CatalogVariant:
    run = {1: row_s, 8: 8 * row_s}
    return CatalogVariant(Measurement(name, accuracy, 400, 0.5, 1.0, 10, 10, 1.0, 0.1, run, 32), model)


FULL, TINY = (
    variant(name, accuracy, Emulated(accuracy, row_s), row_s)
    for name, accuracy, row_s in (("full", 0.95, 0.04), ("tiny", 0.85, 0.004))
)
WORSE = variant("worse", 0.8, Emulated(0.8, 0.06), 0.06)
CATALOG = Catalog("scene", ("a", "b"), (FULL, TINY, WORSE))


PROFILES = {0.95: BatchingProfile.from_line(40.0, 0.0, 16), 0.85: BatchingProfile.from_line(4.0, 0.0, 16)}


@pytest.fixture
def known_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profile the emulated variants by their table instead of seconds of sleep."""

    def profile(members: Any, **_: object) -> BatchingProfile:
        return PROFILES[members[0].session.model.value]

    monkeypatch.setattr("vista_spark.serving._catalog.measured", profile)


@pytest.mark.usefixtures("known_profiles")
def test_overload_is_answered_by_cheaper_variants(spark: SparkSession) -> None:
    server = Server(spark, backends=1, epoch_s=1.0)
    server.deploy(Session("scene", catalog=CATALOG, inputs=INPUTS, slo_ms=1000, dollars_per_day=2.0))
    assert server.profile("scene") is PROFILES[0.95]
    with server.start(timeout_s=600.0, port=0, token=False) as api:
        (served,) = api.models
        assert [spec.name for spec in served.described_outputs] == ["y", "variant"]
        alone = [api["scene"].execute(ROW).result(SECONDS) for _ in range(5)]
        assert [(str(answer["variant"]), float(answer["y"])) for answer in alone] == [("full", 0.95)] * 5
        # The full variant can answer 25 rows per second.
        asked = []
        for _ in range(200):
            asked.append(api["scene"].execute(ROW))
            time.sleep(0.02)
        answers: Counter[str] = Counter()
        for future in asked:
            try:
                answer = future.result(SECONDS)
            except RequestError as error:
                answers[type(error).__name__] += 1
            else:
                assert float(answer["y"]) == {"full": 0.95, "tiny": 0.85}[str(answer["variant"])]
                answers[str(answer["variant"])] += 1
        assert answers["full"] > 10, answers
        assert answers["tiny"] > 10, answers
        assert answers["full"] + answers["tiny"] > 150, answers
        end = time.monotonic() + SECONDS
        while (answer := over_http(str(api.url)))["variant"] != "full":
            assert time.monotonic() < end
            time.sleep(0.2)
        assert answer["y"] == 0.95
        until(lambda: api.spent["scene"] > 0)


def over_http(url: str) -> dict[str, Any]:
    """Ask by HTTP; return the outputs of the only row."""
    entry = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [0.0]}
    body = json.dumps({"inputs": [entry]}).encode()
    request = urllib.request.Request(f"{url}/v2/models/scene/infer", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return {each["name"]: each["data"][0] for each in json.load(response)["outputs"]}


@pytest.mark.usefixtures("known_profiles")
def test_variants_are_chosen_by_accuracy_and_deadline(caplog: pytest.LogCaptureFixture) -> None:
    deployed = Deployed(1, "cpu")
    deployed.add(Session("scene", catalog=CATALOG, inputs=INPUTS))
    deployed.add(Session("accurate", catalog=CATALOG, inputs=INPUTS, min_accuracy=0.9))
    deployed.add(Session("short", catalog=CATALOG, inputs=INPUTS, slo_ms=50.0))
    assert {name: ladder.names for name, ladder in deployed.ladders.items()} == {
        "scene": ("full", "tiny"),
        "accurate": ("full",),
        "short": ("tiny",),
    }
    assert "variant full of short is left out" in caplog.text
    with pytest.raises(InfeasibleError, match="long enough for a variant of the catalog, got 5 in"):
        deployed.add(Session("late", catalog=CATALOG, inputs=INPUTS, slo_ms=5.0))
    offers = {offer.model.name: offer for offer in deployed.catalog(lambda each: each.recipe).offers}
    assert {name: offer.least_ms for name, offer in offers.items()} == {"scene": 4.0, "accurate": 40.0, "short": 4.0}


def test_a_variant_that_is_not_faster_here_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vista_spark.serving._catalog.measured", lambda *_, **__: PROFILES[0.95])
    deployed = Deployed(1, "cpu")
    deployed.add(Session("scene", catalog=CATALOG, inputs=INPUTS))
    assert deployed.ladders["scene"].names == ("full",)


def test_variants_have_the_same_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vista_spark.serving._variants._is_faster", lambda *_: True)
    monkeypatch.setattr("vista_spark.serving._catalog.measured", lambda *_, **__: PROFILES[0.95])
    for other in ("variant", "z"):
        odd = variant("odd", 0.9, lambda arrays, name=other: {name: arrays["x"]}, 0.01)
        catalog = Catalog("scene", ("a", "b"), (FULL, odd))
        with pytest.raises(InvalidArgumentError, match="the same outputs"):
            Deployed(1, "cpu").add(Session("scene", catalog=catalog, inputs=INPUTS))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "model must be set in session 'scene', or a catalog"),
        ({"catalog": CATALOG, "min_accuracy": 0.99}, r"\(full 0\.950, tiny 0\.850, worse 0\.800\), got 0\.99"),
        ({"catalog": CATALOG, "model": "mobilenet_v2"}, "model must be None with a catalog"),
        ({"catalog": CATALOG, "weights": "w.pth"}, "weights must be None with a catalog"),
        ({"catalog": CATALOG, "head": "head.pth"}, "head must be None with a catalog"),
        ({"catalog": "scene"}, r"catalog must be a vista_spark\.variants\.Catalog, got str"),
        ({"catalog": CATALOG, "dollars_per_day": 0}, "dollars_per_day must be"),
        ({"catalog": CATALOG, "min_accuracy": 2}, "min_accuracy must be"),
        ({"model": "mobilenet_v2", "min_accuracy": 0.5}, "min_accuracy must not be set without a catalog"),
        ({"model": "mobilenet_v2", "dollars_per_day": 3}, "dollars_per_day must not be set without a catalog"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Session("scene", **options)


def test_a_catalog_is_neither_saved_nor_profiled_as_a_model(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="catalog must be None, got one in session 'scene'"):
        ModelStore(str(tmp_path)).save(Session("scene", catalog=CATALOG))
    with pytest.raises(InvalidArgumentError, match="session must have a model, got a catalog in session 'scene'"):
        profile_batches(Session("scene", catalog=CATALOG, inputs=INPUTS))


class _Link:
    def __init__(self) -> None:
        self.alive = True
        self.results: Results | None = None

    def report(self, **busy_s: float) -> None:
        self.results = Results((), 0, 0, 0.0, {}, {group: 1000 * seconds for group, seconds in busy_s.items()})


@pytest.mark.usefixtures("known_profiles")
def test_a_session_is_refused_before_its_budget_is_exceeded() -> None:
    """A cent is 100 busy seconds, and one backend may spend up to 4 of them before it is noticed."""
    deployed = Deployed(1, "cpu")
    deployed.add(Session("scene", catalog=CATALOG, inputs=INPUTS, slo_ms=1000, dollars_per_day=0.01))
    deployed.add(Session("free", catalog=CATALOG, inputs=INPUTS))
    spending, links = Spending(0.36), [_Link()]
    spending.follow(deployed.catalog(lambda each: each.recipe))
    assert spending.refusals(links) == {}  # type: ignore[arg-type]
    links[0].report(scene=60.0, free=500.0)
    assert spending.refusals(links) == spending.refusals(links) == {}  # type: ignore[arg-type]
    assert spending.spent == {"scene": pytest.approx(0.006)}
    assert spending.limits() == {"scene": pytest.approx(40 / 86_400, rel=1e-3)}
    # A backend is lost, and another one takes its place.
    links[0].report(scene=80.0)
    links[0].alive = False
    links = [_Link()]
    links[0].report(scene=15.0)
    assert spending.refusals(links) == {}  # type: ignore[arg-type]
    links[0].report(scene=16.5)
    refusal = spending.refusals(links)["scene"]  # type: ignore[arg-type]
    assert spending.spent["scene"] == pytest.approx(0.00965)
    assert "The budget of 'scene' is used up: dollars_per_day is 0.01. The next day begins in 24.0 h." in str(refusal)
    assert refusal.retry_after_s == pytest.approx(86_400, abs=60)
    # Requests took twice as long as planned.
    spending.correct({"scene": 96.5 / 2})
    assert spending.limits() == {"scene": pytest.approx(3.5 / 86_400 / 2, rel=1e-3)}


def test_a_row_is_read_again_for_a_variant_of_another_image_size() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 2)]
    model = torch.nn.Sequential(*layers).eval()
    nets = [network(model, None, 0, size) for size in (24, 12)]
    catalog = Catalog(
        "scene",
        ("a", "b"),
        tuple(
            variant(f"{size} px", size / 30, net.card, size / 1000) for size, net in zip((24, 12), nets, strict=True)
        ),
    )
    deployed = Deployed(1, "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vista_spark.serving._catalog.measured", lambda *_, **__: PROFILES[0.95])
        patch.setattr("vista_spark.serving._variants._is_faster", lambda *_: True)
        deployed.add(Session("scene", catalog=catalog))
        deployed.add(Session("plain", model=model, image_size=24))
    made = deployed.catalog(lambda each: each.recipe)
    # Variants share no trunk with other sessions, and a decoded image fits only one of them.
    assert made.members == {"scene": ("scene",), "plain": ("plain",)}
    (offer,) = (offer for offer in made.offers if offer.model.name == "scene")
    assert offer.admission.decoded == {}
    group = OpenModels("cpu", 1).open(made.recipes["scene"])
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    inputs = offer.admission.rows({"image": np.array([file.getvalue()], object)})[0]
    row = Row("scene", "", group.readers["scene"].read(inputs), 0, inputs)
    for place, net in enumerate(nets):
        (answer,) = _answers(group, [(Waiting(1, 1.0, "scene"), row)], place)
        tensor = decode(file.getvalue(), net.preprocessing)
        assert answer.failure == ""
        with torch.no_grad():
            expected = model(torch.from_numpy(tensor[None]))[0].numpy()
        np.testing.assert_allclose(from_wire(answer.outputs["output"]), expected, atol=1e-5)
        assert str(from_wire(answer.outputs["variant"])) == catalog.variants[place].name
