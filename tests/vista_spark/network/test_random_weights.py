"""A network without trained weights says so, once, wherever it runs over a user's data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import encode
from PIL import Image
from pyspark.ml.classification import LogisticRegression

from vista_spark import CNNFeaturizer, FeatureTransfer, OcclusionExplainer, explain_image, plan_feature_transfer, roster
from vista_spark.errors import LabelError, RandomWeightsWarning
from vista_spark.network import _random, warn_of_random_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

PICTURE = np.zeros((3, 64, 64), np.float32)
SAID = r"model 'squeezenet1_1' has random weights, drawn from seed 3.*Pass weights="


def images(spark: SparkSession) -> DataFrame:
    picture = encode(Image.new("RGB", (64, 64)))
    return spark.createDataFrame([(1, 0.0, 1.0, picture)], "id long, label double, x double, image binary")


def transfer() -> FeatureTransfer:
    return FeatureTransfer(
        model="squeezenet1_1", layers=1, downstream=LogisticRegression(), image_size=64, seed=3, progress=False
    )


@pytest.mark.parametrize(
    "run",
    [
        lambda df: CNNFeaturizer(model="squeezenet1_1", imageSize=64, seed=3).transform(df),
        lambda df: OcclusionExplainer(model="squeezenet1_1", imageSize=64, seed=3).fit(df),
        lambda _: explain_image(PICTURE, "squeezenet1_1", image_size=64, stride=16, seed=3),
    ],
    ids=["featurizer", "explainer", "explain_image"],
)
def test_running_a_random_network_warns(spark: SparkSession, run: Callable[[DataFrame], Any]) -> None:
    with pytest.warns(RandomWeightsWarning, match=SAID):
        run(images(spark))


def test_a_transfer_warns_before_it_reads_the_tables(spark: SparkSession) -> None:
    df = images(spark)
    with pytest.warns(RandomWeightsWarning, match=SAID), pytest.raises(LabelError, match="one class"):
        transfer().run(df.select("id", "label", "x"), df.select("id", "image"), feature_columns=["x"])


def test_a_network_is_warned_of_once() -> None:
    card = roster.card("resnet18")
    _random.__dict__.pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for seed in (0, 0, 1):
            warn_of_random_weights(card, None, seed)
        warn_of_random_weights(card, "resnet18.pth", 2)
    assert [f"seed {seed}" in str(each.message) for seed, each in enumerate(caught)] == [True, True]


def test_plans_and_builders_of_ones_own_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    from optimizer.memory import ClusterSpec

    card = roster.card("squeezenet1_1")
    warn_of_random_weights(roster.ModelCard("mine", dict, card.preprocessing, card.layers, 0, "mine"), None, 0)
    cluster = ClusterSpec(nodes=1, cores=2, memory_bytes=32 << 30)
    facts: dict[str, Any] = {"rows": 100, "structured_features": 2, "image_bytes": 9_000}
    plan_feature_transfer("squeezenet1_1", cluster, layers=1, batch_size=2, **facts)
    assert not [each for each in recwarn if each.category is RandomWeightsWarning]
