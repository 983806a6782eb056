"""The best model of a feature transfer as one graph, on real photographs: the numbers are the transfer's own."""

from __future__ import annotations

import pickle
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from photographs import crops, encode
from real_inputs import mobilenet_v2_weights
from sklearn.ensemble import RandomForestClassifier as SklearnForest
from sklearn.tree import DecisionTreeClassifier as SklearnTree

from optimizer.compiling import UnsupportedOperatorError
from udfs.inference import pool
from vista_spark import CNNFeaturizer, CompiledTransfer, TensorPipeline, compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.network import network
from vista_spark.transfer._predictor import PredictorInputs

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
    monkeypatch.setattr("vista_spark.compiling._transfer.lower_whole", lambda *_: program)
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
