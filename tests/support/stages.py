"""The Spark ML stages of the project, each with what the contract needs to know of it."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from estimators import network_estimator
from photographs import crops, encode
from pyspark.ml.functions import array_to_vector
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from texts import TOKENIZERS, sentences, tiny_bert

from cerebro_spark import EnsembleModel, GroupedModel, TunedModel
from cerebro_spark.ensembles import MemberRecord
from optimizer.specialization import CompactProfile, Confusion, ConfusionCurve, Policy
from udfs.ensembles import Combination, Member
from udfs.grouping import GROUPS_SCHEMA, MODELS_SCHEMA
from udfs.grouping._weights import packed_weights
from udfs.inference import PortableNetwork
from udfs.shards import TensorColumn, TensorGroup
from udfs.specialization import CompactModel, LearnedParts, LinearHead, parts_to_bytes
from udfs.testing import StageSample
from udfs.training import Task
from vista_spark import (
    Cascade,
    CNNFeaturizer,
    MLPClassifier,
    MLPRegressor,
    OcclusionExplainer,
    SpecializedClassifier,
    SpecializedModel,
    TensorPipeline,
    TextFeaturizer,
    compile_pipeline,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SPECIALIZED_CLASSIFIER", "STAGES", "images", "numbers", "texts"]


def images(spark: SparkSession, count: int) -> DataFrame:
    rows = [
        (number, float(label), encode(picture)) for number, (label, _, _, picture) in enumerate(crops(count, side=64))
    ]
    return spark.createDataFrame(rows, "id long, label double, image binary")


def texts(spark: SparkSession, count: int) -> DataFrame:
    rows = [(number, float(kind), text) for number, (kind, text) in enumerate(sentences(count))]
    return spark.createDataFrame(rows, "id long, label double, text string")


def text_featurizer() -> TextFeaturizer:
    tiny_bert()
    return TextFeaturizer(model="tiny_bert", layers=["layer1", "layer3"], outputCols=["low", "high"], batchSize=3)


def numbers(spark: SparkSession, count: int) -> DataFrame:
    draw = np.random.default_rng(7)
    rows = [(number, float(number % 2), (draw.normal(size=4) + number % 2 * 2).tolist()) for number in range(count)]
    df = spark.createDataFrame(rows, "id long, label double, numbers array<double>")
    return df.withColumn("numbers", array_to_vector("numbers"))


def tensor_pipeline() -> TensorPipeline:
    draw = np.random.default_rng(7)
    labels = np.arange(40) % 2
    rows = draw.normal(size=(40, 4)) + 2 * labels[:, None]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    return TensorPipeline(
        compiled=compile_pipeline(fitted),
        featuresCol="numbers",
        predictionCol="guess",
        probabilityCol="chance",
        batchSize=3,
    )


def cascade() -> Cascade:
    def stage(seed: int, strength: float) -> TensorPipeline:
        draw = np.random.default_rng(seed)
        labels = np.arange(40) % 2
        rows = draw.normal(size=(40, 4)) + 2 * labels[:, None]
        fitted = make_pipeline(StandardScaler(), LogisticRegression(C=strength)).fit(rows, labels)
        return TensorPipeline(compiled=compile_pipeline(fitted), featuresCol="numbers")

    return Cascade(
        oracle=stage(7, 1.0),
        proxies=[stage(8, 0.1)],
        target=0.6,
        delta=0.5,
        costs=[1.0, 50.0],
        predictionCol="guess",
        probabilityCol="chance",
    )


def specialized_classifier() -> SpecializedClassifier:
    compact = CNNFeaturizer(model="squeezenet1_1", layers="fire3", pooling="mean", imageSize=32, seed=5)
    return SpecializedClassifier(oracle="squeezenet1_1", compact=compact)


def specialized_model() -> SpecializedModel:
    """Make a model of two classes with a random head; its oracle answers the first six frames."""
    oracle, compact = (
        CNNFeaturizer(model="squeezenet1_1", layers="fire3", pooling="mean", imageSize=size, seed=5)
        for size in (64, 32)
    )
    # The second class wins on both photographs, more clearly on the first.
    weight = 0.2 * np.random.default_rng(3).normal(size=(2, 128))
    head = LinearHead(weight.astype(np.float32), np.array([0, 0.5], np.float32))
    curve = ConfusionCurve((1,), (Confusion(0.99, 0.01, 0.98),))
    return SpecializedModel(
        oracle,
        [compact],
        Policy(classes=2, accuracy=0.98, seconds=0.1, compacts=[CompactProfile("small", 0.01, curve)], window=6),
        [CompactModel("small", 0, 0.7)],
        [0.0, 1.0],
        "double",
        data=parts_to_bytes(LearnedParts((head,), oracle=head)),
    )


def tuned_model() -> TunedModel:
    draw = torch.random.get_rng_state()
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    torch.random.set_rng_state(draw)
    network = PortableNetwork.of(net, [np.zeros((2, 4), np.float32)])
    columns = TensorGroup("features", (TensorColumn("numbers", "float32", (4,)),), joined=True)
    facts = {"framework": "torch", "kind": "classes", "threshold": 0.0, "inputs": [asdict(columns)], "label": "label"}
    return (
        TunedModel(network.data, facts)
        .setPredictionCol("guess")
        .setRawPredictionCol("scores")
        .setProbabilityCol("chance")
    )


def ensemble_model() -> EnsembleModel:
    single = tuned_model()
    group, task = single.inputs, Task("multiclass", "class index", "logits", 2)
    members = [Member(single.network, group, task, weight, choices) for weight, choices in ((2 / 3, 2), (1 / 3, 1))]
    records = [
        MemberRecord("c000", 1, {"lr": 0.1}, 2, 2 / 3, 0.9, 0.8),
        MemberRecord("c000", 2, {}, 1, 1 / 3, 0.7, 0.6),
    ]
    return (
        EnsembleModel.from_members(members, records, Combination.from_tasks([task], "mean"))
        .setPredictionCol("guess")
        .setRawPredictionCol("scores")
        .setProbabilityCol("chance")
    )


def groups(spark: SparkSession, count: int) -> DataFrame:
    return numbers(spark, count).selectExpr("id", "label", "if(id % 3 = 0, 'a', 'b') as kind", "numbers")


@cache
def packed_groups() -> Path:
    """A folder with the models of two groups and of all rows, and their results."""
    folder = Path(tempfile.mkdtemp())
    models = [{"key": None, "configuration": 0, "content": tuned_model().network.data}]
    rows = []
    draw = np.random.default_rng(3)
    for level, key in enumerate(("[]", '["a"]', '["b"]')):
        # The sum of the numbers decides.
        layers = {"0": (np.ones((8, 4)) / 8, draw.normal(size=8)), "2": (np.outer([-1, 1], np.ones(8)), np.zeros(2))}
        tensors = {
            f"{layer}.{name}": array.astype(np.float32)
            for layer, arrays in layers.items()
            for name, array in zip(("weight", "bias"), arrays, strict=True)
        }
        models.append({"key": key, "configuration": 0, "content": packed_weights(tensors)})
        rows.append({"key": key, "level": min(level, 1), "configuration": 0, "status": "finished", "rows": 9})
    for name, content, schema in (("models", models, MODELS_SCHEMA), ("results", rows, GROUPS_SCHEMA)):
        pq.write_table(pa.Table.from_pylist(content, schema), folder / f"{name}.parquet")
    return folder


def grouped_model() -> GroupedModel:
    single, folder = tuned_model(), packed_groups()
    facts = {
        "framework": "torch",
        "task": Task("multiclass", "class index", "logits", 2).to_dict(),
        "inputs": [asdict(group) for group in single.inputs],
        "label": "label",
        "group_by": ["kind"],
        "types": ["string"],
        "configurations": [{}],
        "larger_is_better": True,
        "metric": "accuracy",
        "run": "groups",
        "epochs": 1,
        "notes": [],
    }
    return (
        GroupedModel([(folder / "models.parquet").as_uri()], str(folder / "results.parquet"), facts)
        .setPredictionCol("guess")
        .setRawPredictionCol("scores")
        .setProbabilityCol("chance")
    )


TRAINING_DEFAULTS: dict[str, Any] = {
    "featuresCol": "features",
    "labelCol": "label",
    "predictionCol": "prediction",
    "layers": [1024, 1024, 1024],
    "maxIter": 10,
    "stepSize": 1e-3,
    "solver": "adam",
    "batchSize": 128,
    "backend": "gloo",
    "standardization": True,
    "regParam": 0.0,
    "seed": 0,
    "device": "auto",
}

TRAINING_VALUES: dict[str, Any] = {
    "featuresCol": "numbers",
    "labelCol": "kind",
    "predictionCol": "guess",
    "layers": [8, 4],
    "maxIter": 3,
    "stepSize": 0.5,
    "solver": "sgd",
    "batchSize": 16,
    "numWorkers": 2,
    "backend": "horovod",
    "standardization": False,
    "regParam": 0.25,
    "seed": 7,
    "device": "cpu",
    "weightCol": "importance",
}

TRAINING_REFUSED: dict[str, tuple[Any, str]] = {
    "layers": ([8, 0], r"layers must be a list of whole numbers of at least 1, got \[8, 0\]"),
    "maxIter": (0, r"maxIter must be at least 1, got 0"),
    "stepSize": (0.0, r"stepSize must be a number above 0, got 0.0"),
    "regParam": (-0.5, r"regParam must be a number of at least 0, got -0.5"),
    "solver": ("adams", r"solver must be one of .*adam, sgd, got 'adams'; did you mean 'adam'"),
    "batchSize": (0, r"batchSize must be at least 1, got 0"),
    "numWorkers": (0, r"numWorkers must be at least 1, got 0"),
    "backend": ("mpi", r"backend must be one of .*gloo, horovod, got 'mpi'"),
    "standardization": ("yes", "standardization|bool"),
}

STAGES: dict[str, StageSample] = {
    "CNNFeaturizer": StageSample(
        "CNNFeaturizer",
        make=lambda: CNNFeaturizer(
            model="squeezenet1_1",
            layers=["fire3", "fire5"],
            outputCols=["low", "high"],
            imageSize=64,
            batchSize=3,
            seed=5,
        ),
        frame=images,
        reads="image",
        reads_param="inputCol",
        adds=("low", "high", "image_error"),
        renamed={"outputCols": ["a.0 `b`", "a.1 `b`"]},
        feature="low",
        tuned=("pooling", ["mean", "max2x2"]),
        defaults={
            "layers": 1,
            "inputCol": "image",
            "pooling": "max2x2",
            "imageAggregation": "mean",
            "batchSize": 32,
            "device": "auto",
            "errors": "null",
            "errorCol": "image_error",
            "outputFormat": "vector",
            "seed": 0,
        },
        values={
            "model": "resnet18",
            "weights": "/models/resnet18.pth",
            "layers": ["conv1", 2],
            "inputCol": "photo",
            "inputCols": ["left", "right"],
            "outputCols": ["a", "b"],
            "combine": "concat",
            "pooling": "mean",
            "layout": {"conv1": "channels_first"},
            "imageSize": 96,
            "maxPixels": 1000,
            "startLayer": "fire5",
            "imageAggregation": "max",
            "batchSize": 8,
            "device": "cpu",
            "errors": "drop",
            "errorCol": "why",
            "errorDetailCol": "how much",
            "outputFormat": "array",
            "seed": 7,
        },
        refused={
            "layers": ([], r"layers must be.*number.*name.*got \[\]"),
            "pooling": ("max3x3", r"pooling must be one of .*max2x2, mean, none, got 'max3x3'; did you mean 'max2x2'"),
            "combine": ("add", r"combine must be one of .*concat, sum, got 'add'"),
            "layout": (("channels_last",), r"layout must be a text such as \"channels_last\", or a mapping"),
            "imageSize": (0, r"imageSize must be at least 1, got 0"),
            "imageAggregation": ("min", r"imageAggregation must be one of .*mean, max, got 'min'"),
            "batchSize": (0, r"batchSize must be at least 1, got 0"),
            "device": ("cpuu", r"device must be .*, got 'cpuu'; did you mean 'cpu'"),
            "errors": ("ignore", r"errors must be one of .*raise, null, drop, got 'ignore'"),
            "outputFormat": (
                "vectors",
                r"outputFormat must be one of .*vector, array, got 'vectors'; did you mean 'vector'",
            ),
            "seed": ("one", "seed|int"),
            "outputCols": ("a", "outputCols|list"),
        },
    ),
    "MLPClassifier": StageSample(
        "MLPClassifier",
        make=lambda: MLPClassifier(
            featuresCol="numbers",
            predictionCol="guess",
            probabilityCol="chance",
            rawPredictionCol="logits",
            layers=[8],
            maxIter=15,
            stepSize=0.02,
            batchSize=4,
            numWorkers=1,
        ),
        frame=numbers,
        reads="numbers",
        reads_param="featuresCol",
        adds=("logits", "chance", "guess"),
        renamed={"rawPredictionCol": "a.0 `b`", "probabilityCol": "a.1 `b`", "predictionCol": "a.2 `b`"},
        feature="chance",
        tuned=("maxIter", [1, 15]),
        defaults=TRAINING_DEFAULTS | {"probabilityCol": "probability", "rawPredictionCol": "rawPrediction"},
        values=TRAINING_VALUES | {"probabilityCol": "chance", "rawPredictionCol": "margins"},
        refused=TRAINING_REFUSED,
    ),
    "TensorPipeline": StageSample(
        "TensorPipeline",
        make=tensor_pipeline,
        frame=numbers,
        reads="numbers",
        reads_param="featuresCol",
        adds=("guess", "chance"),
        renamed={"predictionCol": "a.0 `b`", "probabilityCol": "a.1 `b`"},
        feature="chance",
        tuned=None,
        defaults={
            "featuresCol": "features",
            "predictionCol": "prediction",
            "probabilityCol": "probability",
            "outputCol": "output",
            "batchSize": 8192,
            "errors": "null",
        },
        values={
            "featuresCol": "numbers",
            "inputCols": ["a", "b", "c", "d"],
            "predictionCol": "guess",
            "probabilityCol": "chance",
            "outputCol": "scaled",
            "batchSize": 7,
            "errors": "drop",
            "errorCol": "why",
        },
        refused={"batchSize": (0, r"batchSize must be at least 1, got 0"), "errors": ("skip", "errors")},
        label=None,
    ),
    "Cascade": StageSample(
        "Cascade",
        make=cascade,
        frame=numbers,
        reads="numbers",
        reads_param=None,
        adds=("guess", "chance", "answered_by", "cascade_error"),
        renamed={"predictionCol": "a.0 `b`", "probabilityCol": "a.1 `b`", "answeredByCol": "a.2 `b`"},
        feature="chance",
        tuned=("metric", ["accuracy", "precision"]),
        defaults={
            "target": 0.98,
            "delta": 0.05,
            "metric": "accuracy",
            "seed": 0,
            "predictionCol": "prediction",
            "probabilityCol": "probability",
            "answeredByCol": "answered_by",
            "batchSize": 256,
            "errors": "null",
            "errorCol": "cascade_error",
        },
        values={
            "target": 0.9,
            "delta": 0.1,
            "metric": "recall",
            "positive": "yes",
            "costs": [1.0, 2.0],
            "maxOracleCalls": 100,
            "seed": 7,
            "predictionCol": "guessed",
            "probabilityCol": "odds",
            "answeredByCol": "by",
            "batchSize": 7,
            "errors": "drop",
            "errorCol": "why",
            "reuse": "/answers",
        },
        refused={
            "target": (1.0, r"target must be a number above 0 and below 1, got 1.0"),
            "delta": (0.0, r"delta must be a number above 0 and below 1, got 0.0"),
            "metric": ("f1", r"metric must be one of .*accuracy, precision, recall, got 'f1'"),
            "costs": ([-1.0], r"costs must be a list of numbers of at least 0, got \[-1.0\]"),
            "maxOracleCalls": (0, r"maxOracleCalls must be at least 1, got 0"),
            "batchSize": (0, r"batchSize must be at least 1, got 0"),
            "errors": ("ignore", r"errors must be one of .*raise, null, drop, got 'ignore'"),
        },
        label=None,
    ),
    "SpecializedModel": StageSample(
        "SpecializedModel",
        make=lambda: specialized_model().setInputCol("image").setOrderCol("id").setOutputCol("guess"),
        frame=images,
        reads="image",
        reads_param="inputCol",
        adds=("guess", "model", "phase", "confidence", "frame_error"),
        renamed={
            "outputCol": "a.0 `b`",
            "modelCol": "a.1 `b`",
            "phaseCol": "a.2 `b`",
            "confidenceCol": "a.3 `b`",
        },
        feature="confidence",
        tuned=None,
        defaults={
            "inputCol": "frame",
            "outputCol": "prediction",
            "orderCol": "t",
            "modelCol": "model",
            "phaseCol": "phase",
            "confidenceCol": "confidence",
            "errorCol": "frame_error",
            "batchSize": 32,
            "trainingTimeout": 60,
        },
        values={
            "inputCol": "picture",
            "outputCol": "guessed",
            "groupCol": "camera",
            "orderCol": "time",
            "modelCol": "by",
            "phaseCol": "state",
            "confidenceCol": "odds",
            "errorCol": "why",
            "batchSize": 7,
            "trainingTimeout": 5,
            "difference": 4.0,
        },
        refused={
            "difference": (-1.0, r"difference must be a number of at least 0, got -1.0"),
            "batchSize": (0, r"batchSize must be at least 1, got 0"),
        },
        built=False,
        blank=specialized_model,
    ),
    "TunedModel": StageSample(
        "TunedModel",
        make=tuned_model,
        frame=numbers,
        reads="numbers",
        reads_param=None,
        adds=("scores", "chance", "guess"),
        renamed={"rawPredictionCol": "a.0 `b`", "probabilityCol": "a.1 `b`", "predictionCol": "a.2 `b`"},
        feature="scores",
        tuned=None,
        defaults={
            "batchSize": 256,
            "predictionCol": "prediction",
            "rawPredictionCol": "rawPrediction",
            "probabilityCol": "probability",
        },
        values={"batchSize": 7, "predictionCol": "guessed", "rawPredictionCol": "margins", "probabilityCol": "odds"},
        refused={"batchSize": (0, r"batchSize must be at least 1, got 0")},
        built=False,
    ),
    "NetworkEstimator": StageSample(
        "NetworkEstimator",
        make=lambda: network_estimator().setParams(
            lr=0.02, rawPredictionCol="scores", probabilityCol="chance", predictionCol="guess"
        ),
        frame=numbers,
        reads="numbers",
        reads_param=None,
        adds=("scores", "chance", "guess"),
        renamed={"rawPredictionCol": "a.0 `b`", "probabilityCol": "a.1 `b`", "predictionCol": "a.2 `b`"},
        feature="chance",
        tuned=("lr", [0.0001, 0.05]),
        defaults={
            "lr": 0.05,
            "hidden": 8,
            "predictionCol": "prediction",
            "rawPredictionCol": "rawPrediction",
            "probabilityCol": "probability",
        },
        values={
            "lr": 0.5,
            "hidden": 5,
            "predictionCol": "guessed",
            "rawPredictionCol": "margins",
            "probabilityCol": "odds",
            "weightCol": "weight",
        },
        refused={
            "lr": ("fast", r"lr must be a finite number, like its default 0.05, got 'fast'"),
            "hidden": (1.5, r"hidden must be a whole number, like its default 8, got 1.5"),
            "weightCol": (1, r"weightCol"),
        },
        built=False,
        label=None,
        blank=network_estimator,
        own_params=("lr", "hidden"),
        saves=False,
    ),
    "OcclusionExplainer": StageSample(
        "OcclusionExplainer",
        make=lambda: OcclusionExplainer(
            model="squeezenet1_1",
            mode="approximate",
            patchSize=10,
            stride=3,
            imageSize=64,
            targetSSIM=0.5,
            targetSpeedup=1.0,
            sampleSize=2,
            seed=5,
        ),
        frame=images,
        reads="image",
        reads_param="inputCol",
        adds=("heat_map", "explanation", "image_error"),
        renamed={"outputCol": "a.0 `b`", "detailsCol": "a.1 `b`"},
        feature="heat_map",
        tuned=("patchColor", [[0, 0, 0], [255, 0, 0]]),
        defaults={
            "inputCol": "image",
            "outputCol": "heat_map",
            "detailsCol": "explanation",
            "patchSize": 16,
            "stride": 4,
            "perturbation": "color",
            "patchColor": [128, 128, 128],
            "mode": "exact",
            "targetSSIM": 0.9,
            "drillDownFraction": 0.25,
            "precision": "auto",
            "targetSpeedup": 3.0,
            "sampleSize": 30,
            "batchSize": 32,
            "device": "auto",
            "errors": "null",
            "errorCol": "image_error",
            "seed": 0,
        },
        values={
            "model": "resnet18",
            "weights": "/models/resnet18.pth",
            "inputCol": "photo",
            "outputCol": "map",
            "detailsCol": "said",
            "output": "log_odds",
            "head": "scores",
            "verify": 7,
            "targetCol": "class",
            "patchSize": 8,
            "stride": 2,
            "perturbation": "blur",
            "patchColor": [0, 0, 0],
            "mode": "naive",
            "targetSSIM": 0.95,
            "drillDownFraction": 0.1,
            "precision": "bfloat16",
            "targetSpeedup": 5.0,
            "region": [0, 32, 8, 64],
            "sampleSize": 5,
            "imageSize": 96,
            "batchSize": 8,
            "device": "cpu",
            "errors": "drop",
            "errorCol": "why",
            "seed": 7,
        },
        refused={
            "patchSize": (0, r"patchSize must be at least 1, got 0"),
            "stride": (0, r"stride must be at least 1, got 0"),
            "perturbation": (
                "blurred",
                r"perturbation must be one of .*color, mean, blur, got 'blurred'; did you mean 'blur'",
            ),
            "patchColor": ([0, 256, 0], r"patchColor must be .*from 0 to 255"),
            "mode": (
                "approximately",
                r"mode must be one of .*exact, approximate, naive, got 'approximately'; did you mean 'approximate'",
            ),
            "targetSSIM": (0.0, r"targetSSIM must be a number above 0, got 0.0"),
            "precision": (
                "float16",
                r"precision must be one of .*float32, bfloat16, got 'float16'; did you mean 'bfloat16'",
            ),
            "drillDownFraction": (-0.1, r"drillDownFraction must be a number of at least 0, got -0.1"),
            "targetSpeedup": (0.5, r"targetSpeedup must be a number of at least 1, got 0.5"),
            "region": ([0, 32], r"region must be .*top, bottom, left and right.*got \[0, 32\]"),
            "sampleSize": (0, r"sampleSize must be at least 1, got 0"),
            "imageSize": (0, r"imageSize must be at least 1, got 0"),
            "errors": ("ignore", r"errors must be one of .*raise, null, drop, got 'ignore'"),
        },
        label=None,
    ),
    "MLPRegressor": StageSample(
        "MLPRegressor",
        make=lambda: MLPRegressor(
            featuresCol="numbers",
            predictionCol="guess",
            layers=[8],
            maxIter=15,
            stepSize=0.02,
            batchSize=4,
            numWorkers=1,
        ),
        frame=numbers,
        reads="numbers",
        reads_param="featuresCol",
        adds=("guess",),
        renamed={"predictionCol": "a.0 `b`"},
        feature="guess",
        tuned=("maxIter", [1, 15]),
        defaults=TRAINING_DEFAULTS,
        values=TRAINING_VALUES,
        refused=TRAINING_REFUSED,
    ),
}
"""By name. A new stage is a new entry."""

if TOKENIZERS:
    STAGES["TextFeaturizer"] = StageSample(
        "TextFeaturizer",
        make=text_featurizer,
        frame=texts,
        reads="text",
        reads_param="inputCol",
        adds=("low", "high", "text_error"),
        renamed={"outputCols": ["a.0 `b`", "a.1 `b`"]},
        feature="low",
        tuned=("pooling", ["cls", "mean"]),
        defaults={
            "layers": 1,
            "inputCol": "text",
            "pooling": "mean",
            "batchSize": 32,
            "device": "auto",
            "errors": "null",
            "errorCol": "text_error",
            "outputFormat": "vector",
            "seed": 0,
        },
        values={
            "model": "minilm_l6",
            "weights": "/models/minilm",
            "layers": ["layer2", 1],
            "inputCol": "review",
            "outputCols": ["a", "b"],
            "combine": "sum",
            "pooling": "cls",
            "maxLength": 64,
            "batchSize": 8,
            "device": "cpu",
            "errors": "drop",
            "errorCol": "why",
            "errorDetailCol": "how much",
            "outputFormat": "array",
            "seed": 7,
        },
        refused={
            "layers": ([], r"layers must be.*number.*name.*got \[\]"),
            "combine": ("add", r"combine must be one of .*concat, sum, got 'add'"),
            "pooling": ("average", r"pooling must be one of .*mean, cls, none, got 'average'"),
            "maxLength": (1, r"maxLength must be at least 2, got 1"),
            "batchSize": (0, r"batchSize must be at least 1, got 0"),
            "errors": ("ignore", r"errors must be one of .*raise, null, drop, got 'ignore'"),
            "outputFormat": (
                "vectors",
                r"outputFormat must be one of .*vector, array, got 'vectors'; did you mean 'vector'",
            ),
        },
    )
STAGES["EnsembleModel"] = replace(STAGES["TunedModel"], name="EnsembleModel", make=ensemble_model)
STAGES["GroupedModel"] = replace(
    STAGES["TunedModel"],
    name="GroupedModel",
    make=grouped_model,
    frame=groups,
    adds=(*STAGES["TunedModel"].adds, "model"),
    renamed=STAGES["TunedModel"].renamed | {"modelCol": "a.3 `b`"},
    defaults=STAGES["TunedModel"].defaults | {"batchSize": 4096, "modelCol": "model"},
    values=STAGES["TunedModel"].values | {"modelCol": "answered"},
)

SPECIALIZED_CLASSIFIER = replace(
    STAGES["SpecializedModel"],
    name="SpecializedClassifier",
    make=specialized_classifier,
    defaults=STAGES["SpecializedModel"].defaults
    | {
        "labelCol": "label",
        "margin": -0.01,
        "epsilon": 0.03,
        "method": "reweight",
        "skews": [0.5, 0.8],
        "experts": 8,
        "classCounts": [1, 2, 5, 10, 20],
        "draws": 5,
        "holdout": 0.3,
        "oracleRows": 200,
        "maxRows": 20_000,
        "seed": 0,
    },
    values=STAGES["SpecializedModel"].values
    | {
        "labelCol": "kind",
        "margin": -0.1,
        "epsilon": 0.1,
        "method": "retrain",
        "skews": [0.6],
        "experts": 2,
        "classCounts": [1, 3],
        "draws": 2,
        "holdout": 0.5,
        "oracleRows": 20,
        "maxRows": 100,
        "seed": 7,
        "window": 20,
        "trainingFrames": 10,
        "validationIndicatorCol": "is_checked",
    },
    refused=STAGES["SpecializedModel"].refused
    | {
        "margin": (-2.0, r"margin must be a number from -1 to 1, got -2.0"),
        "epsilon": (1.0, r"epsilon must be a number from 0 to 1, without 1, got 1.0"),
        "method": ("train", r"method must be one of .*reweight, retrain, got 'train'"),
        "skews": ([1.0], r"skews must be a list of numbers above 0 and below 1, got \[1.0\]"),
        "window": (1, r"window must be at least 2, got 1"),
        "trainingFrames": (-1, r"trainingFrames must be at least 0, got -1"),
        "classCounts": ([2, 2], r"classCounts must be a list of increasing positive integers, got \[2, 2\]"),
        "experts": (0, r"experts must be at least 1, got 0"),
    },
    built=True,
    blank=None,
)
"""Not among the others: the few rows of the contract are not enough to fit it."""
