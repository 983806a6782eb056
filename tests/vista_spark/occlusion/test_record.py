"""Numbers of a heat map: written beside its picture, and read from a row of the stage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.occlusion import OcclusionGrid
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion import Explanation

if TYPE_CHECKING:
    from pathlib import Path

GRID = OcclusionGrid((61, 64), (16, 16), (8, 8), ((2, 57), (0, 64)))


def explanation() -> Explanation:
    values = np.linspace(0.2, 0.9, GRID.count, dtype=np.float32).reshape(GRID.shape)
    values[0, 1] = np.nan
    return Explanation(
        values, GRID, 1, 2, 0.7, "exact", 2.0, 1.5, np.zeros((61, 64, 3), np.uint8), score="value: of 'fc'",
        top=((2, 0.8), (1, 0.7)), class_names=("cat", "dog", "cow"), model="mine",
    )  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    details: dict[str, Any] = {
        "target": 7, "predicted": 8, "probability": 0.7, "rows": 6, "columns": 7, "estimated_ssim": 0.93,
        "seconds": 1.0, "mode": "approximate", "patch": 16, "stride": 8, "image_rows": 61, "image_columns": 64,
        "row_starts": [2, 10, 18, 26, 34, 41], "column_starts": [0, 8, 16, 24, 32, 40, 48], "score": "value: of 'fc'",
        "verified": 0, "difference": 0.0, "elements": 1000, "top": [{"element": 8, "score": 0.9}],
        "theoretical_speedup": 2.0, "model": "squeezenet1_1", "random_weights": True,
    }  # fmt: skip
    return {"heat_map": np.arange(42.0), "explanation": details | changes, "id": 3}


def test_the_numbers_are_saved_beside_the_picture(tmp_path: Path) -> None:
    picture, numbers = explanation().save(tmp_path / "new" / "heat.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert numbers == tmp_path / "new" / "heat.json"
    saved = json.loads(numbers.read_text())
    assert saved["starts"] == [[2, 10, 18, 26, 34, 41], [0, 8, 16, 24, 32, 40, 48]]
    assert (saved["patch"], saved["stride"], saved["image"]) == ([16, 16], [8, 8], [61, 64])
    assert (saved["target"], saved["target_name"], saved["predicted_name"]) == (1, "dog", "cow")
    assert saved["top"] == [
        {"element": 2, "name": "cow", "score": 0.8},
        {"element": 1, "name": "dog", "score": 0.7},
    ]
    assert saved["heat_map"][0][1] is None, "JSON has no NaN"
    known = np.array(saved["heat_map"], np.float64)
    np.testing.assert_allclose(known, explanation().heat_map, atol=1e-7)
    assert (saved["score"], saved["mode"], saved["random_weights"]) == ("value: of 'fc'", "exact", False)
    assert {"cerebro-spark", "numpy"} <= saved["versions"].keys()
    with pytest.raises(InvalidArgumentError, match=r"path must have one of the suffixes .*png.* got .*heat.npz"):
        explanation().save(tmp_path / "heat.npz")
    with pytest.raises(InvalidArgumentError, match="path must have one of the suffixes"):
        explanation().save(tmp_path / "heat.json")


def test_a_row_becomes_an_explanation() -> None:
    found = Explanation.of(row())
    assert found.grid.starts(0).tolist() == [2, 10, 18, 26, 34, 41]
    assert found.grid.starts(1).tolist() == [0, 8, 16, 24, 32, 40, 48]
    assert found.heat_map.tolist() == np.arange(42.0).reshape(6, 7).tolist()
    assert (found.target, found.predicted, found.probability) == (7, 8, 0.7)
    assert (found.mode, found.likeness, found.score) == ("approximate", 0.93, "value: of 'fc'")
    assert found.has_random_weights
    assert found.top == ((8, 0.9),)
    assert found.image.shape == (61, 64, 3)
    assert len(np.unique(found.image)) == 1, "grey without the image"
    assert "RANDOM WEIGHTS" in found.plot()._suptitle.get_text()
    renamed = {"map": row()["heat_map"], "said": row()["explanation"]}
    assert Explanation.of(renamed, heat_map="map", explanation="said").grid == found.grid
    named = Explanation.of(row(), class_names=[f"thing {number}" for number in range(1000)])
    assert named.name_of(7) == "thing 7"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"heat_map": None} | {"explanation": None}, "must have a heat map, got null"),
        ({"explanation": {"target": 1}}, "must have column_starts, difference.*transform the images again"),
        ({"heat_map": np.arange(41.0)}, "must have 42 numbers, as 'explanation' has places, got 41"),
        ({"explanation": row(row_starts=[2, 10, 18, 26, 35, 41])["explanation"]}, "places must start every 8 pixels"),
    ],
)
def test_a_row_that_does_not_do_is_refused(broken: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        Explanation.of(row() | broken)


def test_columns_and_models_have_to_be_known() -> None:
    with pytest.raises(InvalidArgumentError, match="the row must have column 'heat'; set heat_map="):
        Explanation.of(row(), heat_map="heat")
    unknown = row(model="mine")
    assert Explanation.of(unknown).model == "mine"
    with pytest.raises(InvalidArgumentError, match=r"must be in the roster of this process .* got 'mine'"):
        Explanation.of(unknown, image=b"")
    with pytest.raises(InvalidArgumentError, match="class_names has 2 names, and the network's score 1000 elements"):
        Explanation.of(row(), class_names=["cat", "dog"])
