"""``OcclusionExplainer`` over DataFrames of real photographs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode
from pyspark.sql import functions as F

from optimizer.occlusion import PatchError
from udfs.occlusion import similarity
from vista_spark import Explanation, OcclusionExplainer, explain_image
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIDE = 64
SETTINGS: dict[str, Any] = {
    "model": "squeezenet1_1", "imageSize": SIDE, "patchSize": 16, "stride": 8, "seed": 5, "batchSize": 16
}  # fmt: skip


@pytest.fixture(scope="module")
def photographs() -> list[bytes]:
    return [encode(picture) for _, _, _, picture in crops(6, side=SIDE)]


@pytest.fixture(scope="module")
def df(spark: SparkSession, photographs: list[bytes]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(photographs)), "id int, image binary")


def rows(found: DataFrame) -> dict[int, Any]:
    return {row["id"]: row for row in found.collect()}


def test_heat_maps_of_a_data_frame_are_those_of_single_images(df: DataFrame, photographs: list[bytes]) -> None:
    found = rows(OcclusionExplainer(**SETTINGS).fit(df).transform(df))
    assert len(found) == len(photographs)
    for number in (0, 4):
        alone = explain_image(photographs[number], "squeezenet1_1", image_size=SIDE, stride=8, seed=5)
        said = found[number]["explanation"]
        assert (said["rows"], said["columns"]) == alone.heat_map.shape == (7, 7)
        assert (said["target"], said["predicted"]) == (alone.target, alone.predicted)
        assert said["probability"] == pytest.approx(alone.probability, rel=1e-4)
        assert said["seconds"] > 0
        assert said["estimated_ssim"] is None
        assert (said["mode"], said["patch"], said["stride"]) == ("exact", 16, 8)
        assert (said["image_rows"], said["image_columns"]) == (SIDE, SIDE)
        assert said["row_starts"] == said["column_starts"] == alone.grid.starts(0).tolist()
        np.testing.assert_allclose(
            found[number]["heat_map"].toArray().reshape(7, 7), alone.heat_map, rtol=1e-4, atol=1e-7
        )
        assert np.ptp(alone.heat_map) > 1e-4
        drawn = Explanation.of(found[number], image=photographs[number])
        np.testing.assert_allclose(drawn.heat_map, alone.heat_map, rtol=1e-4, atol=1e-7)
        np.testing.assert_array_equal(drawn.image, alone.image)
        assert drawn.grid.starts(1).tolist() == alone.grid.starts(1).tolist()
        assert [element for element, _ in drawn.top] == [element for element, _ in alone.top]
        assert (drawn.model, drawn.has_random_weights, drawn.score) == ("squeezenet1_1", True, alone.score)
        assert drawn.explain().splitlines()[:2] == alone.explain().splitlines()[:2]


def test_the_target_may_be_a_column_and_a_class_that_is_none_costs_its_row(df: DataFrame) -> None:
    wanted = df.withColumn("class", F.when(F.col("id") == 1, 7).when(F.col("id") == 2, 1000).cast("int"))
    model = OcclusionExplainer(**SETTINGS, targetCol="class").fit(wanted)
    found = rows(model.transform(wanted))
    assert found[1]["explanation"]["target"] == 7
    assert found[0]["explanation"]["target"] == found[0]["explanation"]["predicted"]
    assert found[2]["heat_map"] is None
    assert found[2]["image_error"].startswith(
        "target must be from 0 to 999, got 1000; probability: softmax over the 1000 outputs"
    )
    assert [found[number]["image_error"] for number in (0, 1, 3)] == [None] * 3
    with pytest.raises(ColumnError, match="targetCol 'class' must be of integers, got string"):
        model.transform(wanted.withColumn("class", F.lit("cat")))


def test_the_score_and_its_verification_are_params(df: DataFrame) -> None:
    explainer = OcclusionExplainer(**SETTINGS, output="log_odds", verify=2, region=[16, 48, 16, 48])
    (row,) = explainer.fit(df).transform(df.limit(1)).collect()
    said = row["explanation"]
    assert said["score"].startswith("log_odds: log(p / (1 - p)) of the softmax over the 1000 outputs of")
    assert said["verified"] == 2
    assert 0 <= said["difference"] < 1e-4
    assert said["probability"] < 0, "no class of a random network is likelier than all others together"
    with pytest.raises(InvalidArgumentError, match=r"head must be left out .* got 'boxes'"):
        explainer.copy().setHead("boxes").fit(df)
    with pytest.raises(TypeError, match="got 'logits'; did you mean 'logit'"):
        explainer.copy().setOutput("logits")


def test_a_corrupt_image_costs_one_row(df: DataFrame) -> None:
    broken = df.withColumn("image", F.when(F.col("id") == 3, F.lit(b"no picture")).otherwise(F.col("image")))
    model = OcclusionExplainer(**SETTINGS).fit(broken)
    found, whole = rows(model.transform(broken)), rows(model.transform(df))
    assert found[3]["heat_map"] is None
    assert found[3]["explanation"] is None
    assert found[3]["image_error"]
    for number in (2, 4):
        np.testing.assert_array_equal(found[number]["heat_map"].toArray(), whole[number]["heat_map"].toArray())
    assert sorted(rows(model.copy().setErrors("drop").transform(broken))) == [0, 1, 2, 4, 5]


@pytest.mark.extended
def test_one_corrupt_image_in_a_thousand(spark: SparkSession, photographs: list[bytes]) -> None:
    thousand = [(number, photographs[number % len(photographs)]) for number in range(1000)]
    thousand[613] = (613, thousand[613][1][:200])
    df = spark.createDataFrame(thousand, "id int, image binary").repartition(4)
    model = OcclusionExplainer(**SETTINGS, region=[16, 40, 16, 40]).fit(df)
    found = rows(model.transform(df))
    assert [number for number, row in found.items() if row["heat_map"] is None] == [613]
    assert [number for number, row in found.items() if row["image_error"]] == [613]
    assert len(found) == len(thousand)


def test_fit_chooses_what_reaches_the_likeness(df: DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    explainer = OcclusionExplainer(**SETTINGS, mode="approximate", targetSSIM=0.9, targetSpeedup=1.5, sampleSize=4)
    with caplog.at_level("INFO"):
        model = explainer.fit(df)
    fixed = model.getTau(), model.getStageOneStride()
    assert model.getPlacesPerImage() or fixed != (1.0, 8), "nothing was given up"
    assert model.getEstimatedSSIM() >= 0.9 - 1e-6
    exact, rough = rows(model.copy().setMode("exact").transform(df)), rows(model.transform(df))
    likeness = {
        number: similarity(*(found[number]["heat_map"].toArray().reshape(7, 7) for found in (exact, rough)))
        for number in exact
    }
    assert np.mean(list(likeness.values())) > 0.8
    assert min(likeness.values()) < 1
    told = {number: row["explanation"]["estimated_ssim"] for number, row in rough.items()}
    assert len(set(told.values())) > 1, "one constant for all images"
    assert np.mean([abs(told[number] - likeness[number]) for number in told]) < 0.1
    assert "measured on 4 images" in model.explain()
    assert re.search(r"repaid (after \d+ images|never)", model.explain())
    assert model.explain() in "\n".join(caplog.messages)


def test_a_model_that_chooses_places_per_image_reaches_the_target_on_each(spark: SparkSession) -> None:
    smooth = [(number, encode(picture)) for number, (_, _, _, picture) in enumerate(crops(3, side=SIDE))]
    df = spark.createDataFrame(smooth, "id int, image binary")
    settings: dict[str, Any] = SETTINGS | {"stride": 1, "region": [0, 44, 0, 44]}
    model = OcclusionExplainer(**settings, mode="approximate", targetSSIM=0.8, sampleSize=2).fit(df)
    assert model.getPlacesPerImage()
    assert "places of each image" in model.explain()
    found, exact = rows(model.transform(df)), rows(model.copy().setMode("exact").transform(df))
    for number, row in found.items():
        shape = row["explanation"]["rows"], row["explanation"]["columns"]
        likeness = similarity(*(of[number]["heat_map"].toArray().reshape(shape) for of in (exact, found)))
        assert row["explanation"]["estimated_ssim"] >= 0.8
        assert likeness > 0.7
        assert likeness < 1


def test_a_likeness_that_cannot_be_had_is_said_and_heat_maps_are_exact(df: DataFrame) -> None:
    rough: dict[str, Any] = {"mode": "approximate", "targetSSIM": 1.5, "targetSpeedup": 1.5, "precision": "bfloat16"}
    explainer = OcclusionExplainer(**SETTINGS, **rough, sampleSize=2)
    reason = r"no approximation reaches an SSIM of 1.5 on the sample \(2 images\).*exact"
    with pytest.warns(UserWarning, match=reason) as caught:
        model = explainer.fit(df)
    assert [each.filename for each in caught if "no approximation" in str(each.message)] == [__file__]
    assert (model.getTau(), model.getStageOneStride(), model.getPrecision()) == (1.0, 8, "float32")
    exact = rows(model.copy().setMode("exact").transform(df.limit(1)))
    (row,) = model.transform(df.limit(1)).collect()
    np.testing.assert_allclose(row["heat_map"].toArray(), exact[row["id"]]["heat_map"].toArray(), atol=1e-6)


def test_what_cannot_be_is_said_before_a_job_starts(df: DataFrame) -> None:
    def fit(**other: Any) -> None:
        OcclusionExplainer(**(SETTINGS | other)).fit(df)

    with pytest.raises(PatchError, match="patch on axis 0 must fit into 64, got 65"):
        fit(patchSize=65)
    with pytest.raises(InvalidArgumentError, match="stride must be at most the patch of 16, got 17"):
        fit(stride=17)
    with pytest.raises(PatchError, match=r"region on axis 1 must be within 0 .* got 0 to 65"):
        fit(region=[0, 64, 0, 65])
    with pytest.raises(InvalidArgumentError, match=r"for a keras network, got .approximate."):
        fit(model="keras_mobilenet_v2", mode="approximate")
    with pytest.raises(InvalidArgumentError, match=r"speed-up by drill-down must be .*below 3\.\d+.* got 9"):
        fit(mode="approximate", targetSpeedup=9.0)
    with pytest.raises(InvalidArgumentError, match="at least 3 places per axis to be compared, got 2 x 2"):
        fit(mode="approximate", region=[0, 24, 0, 24], targetSpeedup=1.0)
    with pytest.raises(ColumnError, match="got arrays of images"):
        OcclusionExplainer(**SETTINGS).fit(df.withColumn("image", F.array("image")))
    with pytest.raises(InvalidArgumentError, match="no model"):
        OcclusionExplainer().fit(df)
    with pytest.raises(EmptyInputError, match="must have rows with an image that can be read to tune on"):
        OcclusionExplainer(**SETTINGS, mode="approximate", targetSpeedup=1.0).fit(
            df.withColumn("image", F.lit(b"no picture"))
        )


def test_grey_photographs_and_a_region(spark: SparkSession) -> None:
    grey = [(number, encode(picture.convert("L"))) for number, (_, _, _, picture) in enumerate(crops(1, side=SIDE))]
    df = spark.createDataFrame(grey, "id int, image binary")
    whole = rows(OcclusionExplainer(**SETTINGS).fit(df).transform(df))[0]["heat_map"].toArray().reshape(7, 7)
    part = rows(OcclusionExplainer(**SETTINGS, region=[16, 48, 8, 64]).fit(df).transform(df))[0]
    said = part["explanation"]
    found = part["heat_map"].toArray().reshape(said["rows"], said["columns"])
    np.testing.assert_allclose(found, whole[2:5, 1:7], rtol=1e-5)
