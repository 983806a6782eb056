"""The best model of a feature transfer as one graph, on real photographs: the numbers are the transfer's own."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from photographs import crops, encode
from pyspark.ml.classification import RandomForestClassifier
from real_inputs import mobilenet_v2_weights
from sklearn.ensemble import RandomForestClassifier as SklearnForest
from sklearn.tree import DecisionTreeClassifier as SklearnTree

from optimizer.compiling import UnsupportedOperatorError
from udfs.compiling.torch import ProgramModule
from udfs.inference import pool
from vista_spark import (
    CNNFeaturizer,
    CompiledTransfer,
    FeatureTransfer,
    OcclusionExplainer,
    TensorPipeline,
    compile_pipeline,
)
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.network import network
from vista_spark.transfer._predictor import PredictorInputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Neither says anything of the label.
NUMBERS = ("third", "top")
SIZE = 96


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rows = [
        (number, float(label), number // 2 % 3, float(number // 2), encode(picture))
        for number, (label, _, _, picture) in enumerate(crops(24, side=64))
    ]
    return pd.DataFrame(rows, columns=["id", "label", "third", "top", "image"])


class TransferPredictor:
    """What a transfer's last stage says of its columns."""

    def __init__(self, model: Any, inputs: PredictorInputs) -> None:
        self.model, self.inputs = model, inputs


class Best:
    """A transfer's best model, whose downstream model is one of scikit-learn: no Spark runs."""

    def __init__(self, *stages: Any) -> None:
        self.stages = list(stages)


@pytest.mark.parametrize(
    ("layer", "pooling", "model"),
    [
        ("block13", "max2x2", SklearnForest(5, max_depth=3, random_state=1)),
        ("block17", "mean", SklearnTree(max_depth=2)),
        ("fc", "max2x2", SklearnTree(max_depth=2)),
    ],
)
def test_one_graph_gives_what_features_and_model_give(
    table: pd.DataFrame, layer: str, pooling: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network("mobilenet_v2", str(mobilenet_v2_weights()), 0, SIZE)
    feature = net.feature(net.layers(layer)[0], "", pooling)
    (feed,) = net.feeds("image")
    images, _ = cast("Any", feed).read(pa.array(list(table["image"])))
    features = pool(net.traced.run({net.image: images}, [feature.layer])[feature.layer], feature.pooling)
    rows = np.concatenate([table[list(NUMBERS)].to_numpy(np.float64), features], axis=1)
    program = compile_pipeline(model.fit(rows, table["label"])).program
    inputs = PredictorInputs(structured=NUMBERS, structured_size=2, image="image", image_size=features.shape[1])
    monkeypatch.setattr("vista_spark.compiling._transfer.program_of", lambda *_: program)
    featurizer = CNNFeaturizer(
        model="mobilenet_v2", weights=mobilenet_v2_weights(), layers=[layer], pooling=pooling, imageSize=SIZE
    )
    compiled = compile_pipeline(Best(featurizer, TransferPredictor(model, inputs)))
    assert isinstance(compiled, CompiledTransfer)
    np.testing.assert_array_equal(compiled.predict(table), model.predict(rows))
    np.testing.assert_allclose(compiled.predict_proba(table), model.predict_proba(rows), atol=1e-5)
    assert 0 < compiled.live < compiled.channels, "a sparse model reads some channels"
    assert compiled.graph.flops() < net.graph.subgraph([feature.layer]).flops()
    narrowed = [inner for path, inner in compiled.module.named_modules() if path.startswith("network.narrow")]
    widths = {getattr(inner, "out_channels", getattr(inner, "out_features", None)) for inner in narrowed}
    assert compiled.live in widths
    assert compiled.predict(table[:0]).shape == (0,)
    with pytest.raises(ColumnError, match="top"):
        compiled.predict(table.drop(columns=["top"]))
    with pytest.raises(InvalidArgumentError, match="row 0, column 'image': not a JPEG"):
        compiled.predict(table.assign(image=[b"%PDF", *table["image"][1:]]))
    with pytest.raises(InvalidArgumentError, match="row 1 has no structured number"):
        compiled.predict(table.assign(top=[1.0, np.nan, *table["top"][2:]]))
    for refuse in (lambda: compiled.save("one"), lambda: compiled.to_onnx("one"), lambda: pickle.dumps(compiled)):
        with pytest.raises(UnsupportedOperatorError, match="mobilenet_v2"):
            refuse()
    with pytest.raises(TypeError, match="best_model"):
        TensorPipeline(compiled=compiled)


def test_options_are_obeyed_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).random((40, 2 + 512))
    model = SklearnTree(max_depth=4).fit(rows, rows[:, 5] > rows[:, 100])
    program = compile_pipeline(model).program
    inputs = PredictorInputs(structured=NUMBERS, structured_size=2, image="image", image_size=512)
    monkeypatch.setattr("vista_spark.compiling._transfer.program_of", lambda *_: program)
    ways: list[list[str]] = []
    monkeypatch.setattr(
        "udfs.compiling.network._joined_module.ProgramModule",
        lambda program, by: (ways.append(list(by.values())), ProgramModule(program, by))[1],
    )
    featurizer = CNNFeaturizer(model="squeezenet1_1", layers=["fire9"], pooling="mean", imageSize=32)
    best = Best(featurizer, TransferPredictor(model, inputs))
    compiled = compile_pipeline(best, tree_strategy="gemm", threads=1)
    assert ways == [["gemm"]], "what runs is what the plan says"
    compile_pipeline(best)
    assert ways[-1] != ["native"], "no tracer sees into native code"
    assert "runs by gemm" in compiled.explain()
    assert "engine eager (backend='eager')" in compiled.explain()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen: list[int] = []
        run = compiled.traced.run
        monkeypatch.setattr(
            type(compiled.traced), "run", lambda _, *given: (seen.append(torch.get_num_threads()), run(*given))[1]
        )
        picture = encode(next(crops(1, side=64))[3])
        compiled.predict(pd.DataFrame({"third": [1.0], "top": [2.0], "image": [picture]}))
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(threads)
    for wrong, why in (
        ({"backend": "onnxruntime"}, "backend='onnxruntime' cannot be compiled"),
        ({"backend": "tvm"}, "backend must be one of"),
        ({"tree_strategy": "fast"}, "tree_strategy must be one of"),
        ({"tree_strategy": "native"}, "tree_strategy='native' cannot be compiled"),
    ):
        with pytest.raises(UnsupportedOperatorError, match=why):
            compile_pipeline(best, **wrong)
    with pytest.raises(InvalidArgumentError, match="threads must be"):
        compile_pipeline(best, threads=0)


@pytest.mark.extended
def test_the_best_model_of_a_transfer_on_spark(spark: SparkSession) -> None:
    """From encoded images and numbers to predictions, as ``best_model`` gives them; and a heat map of one of them."""
    rows = [
        (number, float(label), float(left), float(top), encode(picture))
        for number, (label, left, top, picture) in enumerate(crops(32, side=64))
    ]
    whole = spark.createDataFrame(rows, "id long, label double, left double, top double, image binary")
    result = FeatureTransfer(
        model="mobilenet_v2",
        weights=mobilenet_v2_weights(),
        layers=("block17",),
        downstream=RandomForestClassifier(numTrees=5, maxDepth=3, seed=1),
        test_fraction=0.3,
        image_size=SIZE,
        experiment=None,
        progress=False,
        seed=4,
    ).run(whole.drop("image"), whole.select("id", "image"), feature_columns=["left", "top"])
    best = result.best_model
    assert [type(stage).__name__ for stage in best.stages] == ["CNNFeaturizer", "TransferPredictor"]
    columns = ("prediction", "probability", "rawPrediction")
    truth = best.transform(whole).orderBy("id").select(*columns).toPandas()
    table = whole.orderBy("id").toPandas()
    compiled = compile_pipeline(best)
    assert isinstance(compiled, CompiledTransfer)
    assert compiled.columns == ("image", "left", "top")
    assert 0 < compiled.live < compiled.channels
    np.testing.assert_array_equal(compiled.predict(table), truth["prediction"])
    probability = np.stack([one.toArray() for one in truth["probability"]])
    np.testing.assert_allclose(compiled.predict_proba(table), probability, atol=1e-6)
    assert len(np.unique(probability.round(3), axis=0)) > 4, "a constant would pass"
    for strategy in ("gemm", "perfect"):
        forced = compile_pipeline(best, tree_strategy=strategy, threads=1)
        np.testing.assert_array_equal(forced.predict_proba(table), compiled.predict_proba(table))

    probabilities, one = compiled.predict_proba(table.iloc[1:2])[0], whole.where("id = 1")
    card = compiled.card(table.iloc[1])
    maps = {}
    for mode in ("exact", "naive"):
        explainer = OcclusionExplainer(model=card, mode=mode, patchSize=24, stride=24)
        row = explainer.fit(one).transform(one).first()
        assert row is not None
        maps[mode] = row["heat_map"].toArray()
        assert row["explanation"]["predicted"] == probabilities.argmax()
        # A probability already: a softmax of it would be another number.
        assert row["explanation"]["probability"] == pytest.approx(probabilities.max(), abs=1e-5)
    assert maps["exact"].shape == (16,)
    np.testing.assert_allclose(maps["exact"], maps["naive"], atol=1e-5)
