"""Stages saved by version 0.1.0.dev0, before their modules moved and their Params were renamed, still load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import stages
from places import ROOT
from pyspark.ml import PipelineModel
from pyspark.ml.util import DefaultParamsReader

from cerebro_spark import TunedModel
from vista_spark import (
    CNNFeaturizer,
    MLPClassificationModel,
    MLPClassifier,
    MLPRegressor,
    OcclusionExplainer,
    OcclusionExplainerModel,
    TextFeaturizer,
)
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SAVED = ROOT / "tests" / "saved"

# Probabilities of class 1 when the pipeline was saved.
EXPECTED = [
    0.32091575860977173,
    0.7916555404663086,
    0.5007460713386536,
    0.9311575889587402,
    0.522262454032898,
    0.6537628769874573,
    0.5007460713386536,
    0.9177585244178772,
    0.43321549892425537,
    0.5805363655090332,
    0.2904788851737976,
    0.40705445408821106,
]


def test_a_pipeline_predicts_as_it_did(spark: SparkSession) -> None:
    loaded = PipelineModel.load(str(SAVED / "pipeline"))
    rows = loaded.transform(stages.images(spark, 12)).sort("id").collect()
    assert [type(stage) for stage in loaded.stages] == [CNNFeaturizer, MLPClassificationModel]
    assert loaded.stages[0].getImageAggregation() == "max", "the Param was called several"
    assert np.allclose([row["probability"][1] for row in rows], EXPECTED, atol=1e-5)


def test_a_tuned_model_predicts_as_it_did(spark: SparkSession) -> None:
    loaded = DefaultParamsReader.loadParamsInstance(str(SAVED / "tuned_model"), spark)
    assert isinstance(loaded, TunedModel)
    rows = loaded.transform(stages.numbers(spark, 6)).sort("id").collect()
    assert [row["guess"] for row in rows] == [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("folder", "kind", "param", "value"),
    [
        ("text_featurizer", TextFeaturizer, "layers", ["layer1"]),
        ("occlusion_explainer", OcclusionExplainer, "targetSSIM", 0.8),
        ("occlusion_explainer_model", OcclusionExplainerModel, "patchSize", 24),
        ("mlp_regressor", MLPRegressor, "layers", [4, 3]),
    ],
)
def test_a_stage_keeps_its_params(spark: SparkSession, folder: str, kind: type, param: str, value: object) -> None:
    loaded = DefaultParamsReader.loadParamsInstance(str(SAVED / folder), spark)
    assert type(loaded) is kind
    assert loaded.getOrDefault(param) == value


@pytest.mark.parametrize(
    ("kind", "folder", "saved"),
    [(MLPClassificationModel, "tuned_model", "TunedModel"), (CNNFeaturizer, "text_featurizer", "TextFeaturizer")],
)
def test_a_stage_of_another_class_is_refused(kind: type[MLPClassificationModel], folder: str, saved: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"holds a {saved}, not a {kind.__name__}"):
        kind.load(str(SAVED / folder))


@pytest.mark.usefixtures("spark")
def test_a_value_of_a_former_name_is_translated(tmp_path: Path) -> None:
    path = tmp_path / "stage"
    CNNFeaturizer(pooling="mean").save(str(path))
    (metadata,) = (path / "metadata").glob("part-*")
    metadata.write_text(metadata.read_text().replace('"pooling":"mean"', '"pooling":"avg"'))
    for checksum in (path / "metadata").glob(".*.crc"):
        checksum.unlink()
    assert CNNFeaturizer.load(str(path)).getPooling() == "mean"


@pytest.mark.usefixtures("spark")
def test_a_stage_is_saved_under_its_public_path(tmp_path: Path) -> None:
    MLPClassifier().save(str(tmp_path / "stage"))
    (metadata,) = (tmp_path / "stage" / "metadata").glob("part-*")
    assert '"class":"vista_spark.MLPClassifier"' in metadata.read_text()
