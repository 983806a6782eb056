"""Requests for heat maps: numbers, regions, progress, cancellation and errors."""

from __future__ import annotations

import hashlib
import io
import re
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

from torch import nn

from optimizer.errors import ColumnError, InvalidArgumentError
from udfs.images import Preprocessing, decode
from udfs.inference import PortableNetwork
from udfs.requests import RequestCancelled
from udfs.shards import TensorColumn, TensorGroup
from vista_spark import explain_image, explain_tensor, roster
from vista_spark.explaining.runner import Explanations

NAME = "explained_by_a_test"


def small_network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 3)),
    ).eval()


def photograph(width: int = 96, height: int = 64) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "PNG")
    return file.getvalue()


IMAGE = photograph()


class Context:
    """Context of a pool that keeps what is reported; `cancel_after` reports, the user cancels."""

    user = "ada"

    def __init__(self, image: bytes = IMAGE, cancel_after: int | None = None) -> None:
        self.image, self.cancel_after, self.reports = image, cancel_after, list[dict[str, Any]]()
        self.checks, self.searches = 0, dict[str, Any]()

    def blob(self, sha256: str) -> bytes:
        return self.image

    def report(self, progress: dict[str, Any]) -> None:
        self.reports.append(progress)

    def check_cancelled(self) -> None:
        self.checks += 1
        if self.cancel_after is not None and self.checks > self.cancel_after:
            raise RequestCancelled


@pytest.fixture(scope="module")
def explanations() -> Any:
    names = ("cat", "egyptian cat", "dog")
    roster.register(roster.ModelCard(NAME, small_network, Preprocessing(crop=48, resize=48), class_names=names))
    yield Explanations()
    roster.unregister(NAME)


def document(**changes: Any) -> dict[str, Any]:
    sha256 = hashlib.sha256(IMAGE).hexdigest()
    return {"image": sha256, "network": NAME, "patch": 8, "stride": 4, "mode": "exact", **changes}


def cells(values: list[float | None], rows: int, columns: int) -> np.ndarray:
    return np.array(values, np.float64).reshape(rows, columns)


@pytest.mark.parametrize("mode", ["exact", "naive"])
def test_the_heat_map_is_that_of_the_library(explanations: Explanations, mode: str) -> None:
    context = Context()
    found = explanations.explain(document(mode=mode), context)
    expected = explain_image(IMAGE, NAME, patch_size=8, stride=4, mode="naive")
    assert (found["rows"], found["columns"]) == expected.heat_map.shape == (11, 11)
    np.testing.assert_allclose(cells(found["values"], 11, 11), expected.heat_map, rtol=0, atol=2e-6)
    assert found["class"] == expected.predicted
    assert found["classes"][0] == [
        expected.name_of(expected.predicted),
        pytest.approx(expected.top[0][1]),
        expected.predicted,
    ]
    assert found["measured_s"] > 0 and found["predicted_s"] > 0
    # 96 x 64 resized to a height of 48 and cropped to 48: the network sees 64 columns in the middle.
    assert found["seen"] == [16, 0, 80, 64]
    assert found["size"] == [96, 64]
    assert len(found["row_edges"]) == 12


def test_progress_is_refined_from_coarse_to_fine(explanations: Explanations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vista_spark.explaining.runner._handlers._PAUSE", 0)
    context = Context()
    final = explanations.explain(document(), context)
    known = [sum(value is not None for value in each["values"]) for each in context.reports]
    assert known == sorted(known) and known[0] == 0 and 0 < known[1] <= 8, "classes and estimate, then four places"
    assert context.reports[0]["predicted_s"] == final["predicted_s"]
    coarse = context.reports[1]["values"]
    assert [value for value in coarse if value is not None] == [
        final["values"][place] for place, value in enumerate(coarse) if value is not None
    ]


@pytest.mark.parametrize("region", [[16, 0, 48, 32], [40, 30, 60, 50], [79, 63, 80, 64]])
def test_a_region_has_the_places_of_the_whole_map(explanations: Explanations, region: list[int]) -> None:
    whole = explanations.explain(document(), Context())
    part = explanations.explain(document(region=region), Context())
    row, column = (
        next(place for place, edge in enumerate(whole[name]) if edge == part[name][0])
        for name in ("row_edges", "column_edges")
    )
    rows, columns = slice(row, row + part["rows"]), slice(column, column + part["columns"])
    expected = cells(whole["values"], 11, 11)[rows, columns]
    np.testing.assert_allclose(cells(part["values"], part["rows"], part["columns"]), expected, rtol=0, atol=2e-6)
    assert part["row_edges"] == whole["row_edges"][row : row + part["rows"] + 1]
    if region == [16, 0, 48, 32]:
        assert (part["rows"], part["columns"]) == (5, 5), "a quarter of what the network sees"


def test_a_region_may_have_the_last_place_alone(explanations: Explanations) -> None:
    """46 pixels with a patch of 8 every 4 end with a place that is nearer to the one before it."""
    name = "odd_extent_of_a_test"
    roster.register(roster.ModelCard(name, small_network, Preprocessing(crop=46, resize=46)))
    try:
        whole = explanations.explain(document(network=name), Context())
        part = explanations.explain(document(network=name, region=[16, 0, 80, 64]), Context())
        assert (part["rows"], part["columns"]) == (whole["rows"], whole["columns"])
        np.testing.assert_allclose(np.array(part["values"]), np.array(whole["values"]), rtol=0, atol=2e-6)
    finally:
        roster.unregister(name)


def test_a_cancelled_request_ends_between_batches(explanations: Explanations) -> None:
    context = Context(cancel_after=2)
    with pytest.raises(RequestCancelled):
        explanations.explain(document(stride=2), context)
    assert context.checks == 3, "no batch after the cancellation"
    assert explanations.explain(document(), Context())["fraction"] == 1.0, "the session stays usable"


def test_the_class_has_a_name_or_a_number(explanations: Explanations) -> None:
    for wanted in ("Egyptian Cat", 1, "1"):
        assert explanations.explain(document(**{"class": wanted}), Context())["class"] == 1
    with pytest.raises(
        InvalidArgumentError, match=r"class must be a class of the network, got 'egyptian cot'.*did you"
    ):
        explanations.explain(document(**{"class": "egyptian cot"}), Context())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch": 5}, "patch must be 4, 8, 16 or 32, got 5"),
        ({"patch": True}, "patch must be 4, 8, 16 or 32, got True"),
        ({"stride": 16}, "stride must be at most the patch of 8, got 16"),
        ({"mode": "exactly"}, "mode must be one of .*did you mean 'exact'"),
        ({"image": "../secret"}, "image must be the SHA-256 of an uploaded image"),
        ({"network": "explained_by_a_tset"}, f"network must be in the roster.*did you mean '{NAME}'"),
        ({"network": 3}, "network must be the name of a network"),
        ({"network": "minilm_l6"}, "must be a network for images"),
        ({"class": 3}, "3"),
        ({"class": 1.5}, "class must be a number or a name"),
        ({"region": [0, 0, 5]}, "region must be four integers"),
        ({"region": [5, 0, 5, 9]}, "region must have 0 <= left < right"),
        ({"region": [0, 0, 97, 64]}, "columns must be a range within 0 and the photograph's 96, got 0 to 97"),
        ({"region": [0, 0, 10, 10]}, "cropped away: the network sees rows 0 to 64 and columns 16 to 80"),
    ],
)
def test_an_invalid_document_is_refused(explanations: Explanations, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        explanations.explain(document(**changes), Context())


@pytest.mark.parametrize("image", [b"", b"<script>alert(1)</script>", IMAGE[:200]])
def test_a_file_that_is_no_image_is_refused(explanations: Explanations, image: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="image must be a PNG, JPEG or similar file, got"):
        explanations.explain(document(), Context(image))


def test_an_estimate_needs_no_image_unless_it_has_a_region(explanations: Explanations) -> None:
    wanted = {"network": NAME, "patch": 8, "stride": 4, "mode": "naive"}
    first = explanations.estimate(wanted)
    assert first["places"] == 121
    assert explanations.estimate({**wanted, "stride": 8})["predicted_s"] <= first["predicted_s"]
    quarter = explanations.estimate(document(region=[16, 0, 48, 32]), Context())
    assert quarter["places"] == 25


def test_networks_have_the_weights_of_a_folder(
    explanations: Explanations, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    network = small_network()
    torch.save(network.state_dict(), tmp_path / f"{NAME}.pth")
    monkeypatch.setenv("CEREBRO_WEIGHTS", str(tmp_path))
    listed = explanations.networks({"network": NAME})
    assert listed["networks"][0] == {"name": NAME, "framework": "torch", "has_weights": True, "size": 48}
    assert listed["class_names"] == ["cat", "egyptian cat", "dog"]
    assert all(each["name"] != "minilm_l6" for each in listed["networks"])
    found = explanations.explain(document(), Context())
    assert not found["has_random_weights"]
    expected = explain_image(IMAGE, NAME, network.state_dict(), patch_size=8, stride=4)
    np.testing.assert_allclose(found["values"], expected.heat_map.ravel(), rtol=0, atol=2e-6)


class EndedSearch:
    """Search that has ended, as a pool has it; its configuration c001 is the small network."""

    done = True

    def __init__(self, dtype: str = "uint8") -> None:
        self.inputs = (TensorGroup("image", (TensorColumn("image", dtype, (3, 48, 48)),)),)

    def wait(self) -> EndedSearch:
        return self

    def model(self, trial: str) -> Any:
        if trial != "c001":
            raise ColumnError("no such configuration")
        network = PortableNetwork.of(trained_network(), [np.zeros((2, 3, 48, 48), np.float32)])
        return SimpleNamespace(network=network, inputs=self.inputs)


@lru_cache
def trained_network() -> nn.Module:
    return small_network()


def test_a_model_of_a_search_is_explained(explanations: Explanations) -> None:
    context = Context()
    context.searches["punks"] = SimpleNamespace(experiment=EndedSearch())
    found = explanations.explain(document(network={"run": "punks", "trial": "c001"}), context)
    pixels = decode(IMAGE, Preprocessing(crop=48, resize=48, mean=(0, 0, 0), std=(1, 1, 1)))
    expected = explain_tensor(
        trained_network(), pixels, patch=8, stride=4, perturbation="color", value=128 / 255, mode="naive"
    )
    np.testing.assert_allclose(found["values"], expected.heat_map.ravel(), rtol=0, atol=2e-6)
    assert not found["has_random_weights"]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            {"run": "punk", "trial": "c001"},
            "since its start, got 'punk'; did you mean 'punks'? Launch it again",
        ),
        ({"run": "punks", "trial": "c002"}, "no such configuration"),
        ({"run": "floats", "trial": "c001"}, "network must read one image"),
        ({"run": "training", "trial": "c001"}, "run must have ended, got 'training'"),
        ({"run": "punks"}, "network must be the name of a network or {'run': ..., 'trial': ...}"),
    ],
)
def test_a_model_that_cannot_be_explained_is_refused(
    explanations: Explanations, network: dict[str, str], message: str
) -> None:
    context = Context()
    context.searches.update(
        punks=EndedSearch(), floats=EndedSearch("float32"), training=SimpleNamespace(done=False, wait=None)
    )
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        explanations.explain(document(network=network), context)
