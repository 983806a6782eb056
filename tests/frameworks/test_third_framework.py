"""A framework in one file of a user's own: it holds the contract, and everything else takes it as it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy_perceptron
import pytest
from numpy_perceptron import FRAMEWORK, Momentum, Perceptron
from pyspark import cloudpickle

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from udfs.handlers import TensorSpec, framework, register_framework, unregister_framework
from udfs.images import Preprocessing
from udfs.shards import Tensors
from udfs.testing import AdaptationContract, AdaptationSample, FrameworkContract, Refusal, Sample, TrainingSample
from vista_spark import CNNFeaturizer, explain_image, roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.roster import FeatureLayer, ModelCard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

SIDE = 8

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    register_framework(FRAMEWORK)
    yield
    unregister_framework("numpy")


def perceptron(*widths: int) -> Perceptron:
    return FRAMEWORK.build(lambda: Perceptron(*widths), (), 1)


def chain() -> Perceptron:
    return perceptron(12, 5, 3)


def small_images() -> Perceptron:
    return Perceptron(3 * SIDE * SIDE, 6, 2)


def perturb(model: Perceptron) -> None:
    model.weights["fc1.weight"][0, 0] += 1


def own_call(model: Perceptron, arrays: Sequence[Any]) -> list[Any]:
    return [model(arrays[0])["fc2"]]


def trainer(params: dict[str, Any]) -> ModelTrainer:
    model = Perceptron(4, params.get("hidden", 8), 2)
    return ModelTrainer(
        model=model, optimizer=Momentum(model, params.get("lr", 0.05)), loss=None, metrics=["accuracy"], batch_size=16
    )


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    return inputs, (inputs.sum(axis=1) > 0).astype(np.int64)


def test_the_framework_is_short() -> None:
    assert len(Path(numpy_perceptron.__file__).read_text().splitlines()) < 240


class TestNumpy(FrameworkContract):
    framework = FRAMEWORK
    samples = (
        Sample(
            "chain",
            chain,
            (TensorSpec((3, 2, 2)),),
            own_call,
            state=lambda model: {name: array.tobytes() for name, array in model.weights.items()},
            output_shapes=((3,),),
            flops=2 * (12 * 5 + 5 * 3),
            param_bytes=4 * (12 * 5 + 5 + 5 * 3 + 3),
            perturb=perturb,
            modules={"fc1": (5,), "relu1": (5,)},
            variants=(lambda: perceptron(12, 6, 3),),
        ),
    )
    refusals = (Refusal("not a perceptron", object, (TensorSpec((4,)),), "expected a perceptron"),)
    training = TrainingSample(
        trainer,
        Tensors((rows(64)[0],), (rows(64)[1],), 64),
        lambda model: {name: array.copy() for name, array in model.weights.items()},
    )


class TestAdaptation(AdaptationContract):
    samples = (
        AdaptationSample(
            "perceptron",
            trainer,
            (TensorSpec((4,)),),
            Tensors((rows(64)[0],), (rows(64)[1],), 64),
            lambda model: {name: array.copy() for name, array in model.weights.items()},
            "models of numpy are not opened",
        ),
    )


@pytest.fixture(scope="module")
def card(registered: None) -> Iterator[ModelCard]:  # the framework comes first
    made = ModelCard(
        name="perceptron",
        builder=small_images,
        preprocessing=Preprocessing(crop=SIDE, resize=SIDE),
        layers=(FeatureLayer("hidden", "relu1"), FeatureLayer("scores", "fc2")),
        parameters=(3 * SIDE * SIDE + 1) * 6 + 7 * 2,
        reference="a test",
        framework="numpy",
    )
    roster.register(made)
    yield made
    roster.unregister("perceptron")


def pixels(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(3, SIDE, SIDE)).astype(np.float32)


@pytest.mark.usefixtures("card")
def test_it_is_featurized(spark: SparkSession) -> None:
    table = spark.createDataFrame(
        [(row, pixels(row).tolist()) for row in range(5)], "id int, image array<array<array<float>>>"
    )
    featurizer = CNNFeaturizer(model="perceptron", layers=["hidden"], inputCol="image", seed=2)
    features = featurizer.transform(table).orderBy("id").collect()
    network = roster.load("perceptron", seed=2)
    for row in features:
        column = next(name for name in row.asDict() if name not in {"id", "image"})
        np.testing.assert_allclose(row[column], network(pixels(row["id"])[None])["relu1"][0], rtol=1e-5, atol=1e-6)


def test_it_is_trained_in_a_grid_search(spark: SparkSession, tmp_path: Path) -> None:
    inputs, labels = rows(200)
    table = spark.createDataFrame(
        [(*map(float, row), int(label)) for row, label in zip(inputs, labels, strict=True)],
        "a double, b double, c double, d double, label long",
    )
    search = GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(tmp_path)),
        trainer_fn=trainer,
        search_space={"lr": [0.05, 0.0]},
        num_epochs=2,
        feature_columns=["a", "b", "c", "d"],
        label_columns=["label"],
        metric="accuracy",
        progress=False,
        seed=5,
    )
    selection = search.fit(table)
    assert selection.best_params["lr"] == 0.05
    predicted = selection.best_model.transform(table).select("prediction", "label").toPandas()
    assert (predicted["prediction"] == predicted["label"]).mean() > 0.8


@pytest.mark.usefixtures("card")
def test_it_is_explained_naively() -> None:
    found = explain_image(pixels(), "perceptron", mode="naive", patch_size=4, stride=4, seed=2, target=1, batch_size=3)
    network = roster.load("perceptron", seed=2)
    preprocessing = roster.card("perceptron").preprocessing
    grey = (128 * preprocessing.scale - np.array(preprocessing.mean)) / np.array(preprocessing.std)
    for row in range(2):
        for column in range(2):
            image = pixels()
            image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = grey[:, None, None]
            scores = network(image[None])["fc2"][0]
            expected = np.exp(scores[1]) / np.exp(scores).sum()
            assert found.heat_map[row, column] == pytest.approx(expected, rel=1e-4)
    exact = explain_image(pixels(), "perceptron", patch_size=4, stride=4, seed=2, target=1)
    np.testing.assert_allclose(exact.heat_map, found.heat_map, atol=1e-6)
    assert "computed in full: numpy networks are not run in parts" in exact.explain()


def test_without_registration_the_way_out_is_named(card: ModelCard) -> None:
    with pytest.raises(InvalidArgumentError, match=r"got 'numpi'; did you mean 'numpy'\?.*cerebro_spark.frameworks"):
        roster.register(replace(card, name="other", framework="numpi"))
    assert framework("numpy") is FRAMEWORK
