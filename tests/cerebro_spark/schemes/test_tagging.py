"""A tagger from tweets to predictions: prepare, a search over schemes, and the best model as a Transformer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers", reason='pip install "cerebro-spark[text]"')
from pyspark import cloudpickle
from real_inputs import minilm, tagged_tweets
from searches import common

from cerebro_spark import GridSearch, ModelTrainer, TunedModel, prepare
from cerebro_spark.data import bio_classes, tokenize
from cerebro_spark.schemes import TransformerHead, feature_transfer, token_loss
from udfs.handlers import open_session
from udfs.metrics import METRICS
from udfs.shards import Tensors, load_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from udfs.store import Store

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TOKENS = 24


def tokens(spark: SparkSession, rows: int) -> tuple[DataFrame, tuple[str, ...]]:
    tweets = [tweet for tweet in tagged_tweets() if "B-person" in tweet[1]][:rows]
    classes = bio_classes(tag[2:] for _, tags in tagged_tweets() for tag in tags if tag != "O")
    df = spark.createDataFrame(tweets, "words array<string>, tags array<string>").repartition(2)
    return tokenize(df, minilm(), tags_column="tags", classes=classes, max_length=TOKENS), classes


def tagger(params: dict[str, Any]) -> ModelTrainer:
    from vista_spark import roster  # as a user writes it

    trunk = roster.load("minilm_l6", params["folder"])
    net = feature_transfer(trunk, layers=params["layers"], head=TransformerHead(384, classes=21, intermediate=64))
    optimizer = torch.optim.Adam([weight for weight in net.parameters() if weight.requires_grad], lr=params["lr"])
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=token_loss,
        metrics=["token_accuracy", "entity_f1"],
        batch_size=8,
    )


@pytest.mark.extended  # writes and sends MiniLM's weights, 91 MB
def test_a_search_over_taggers(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    df, classes = tokens(spark, 48)
    search = GridSearch(
        **common(
            spark,
            store,
            trainer_fn=tagger,
            feature_columns=["input_ids", "attention_mask"],
            label_columns=["tags"],
            metric="entity_f1",
            search_space={
                "lr": [3e-3],
                "layers": ["embeddings", "encoder.layer.0"],
                "folder": [str(minilm())],
            },
            num_epochs=2,
        )
    )
    selection = search.fit(df)
    last = selection.best.history[-1]
    assert 0 <= last["val_entity_f1"] <= 1
    assert last["val_token_accuracy"] > 0.5  # most words are outside of entities, and it has learned that
    model = selection.best_model
    model.write().overwrite().save(str(tmp_path / "tagger"))
    scored = TunedModel.load(str(tmp_path / "tagger")).transform(df).collect()
    assert {len(row.prediction) for row in scored} == {TOKENS}
    assert {row.rawPrediction.size for row in scored} == {TOKENS * len(classes)}


class Small(torch.nn.Module):
    """A class of each token from the token alone."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Embedding(30_522, 21)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.scores(ids) * mask[:, :, None]
        return out


def small(params: dict[str, Any]) -> ModelTrainer:
    net = Small()
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=token_loss, metrics=["entity_f1"])


def test_a_model_predicts_a_class_a_token(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    df, _ = tokens(spark, 12)
    columns = ["input_ids", "attention_mask"]
    prepared = prepare(df, store, feature_columns=columns, label_columns=["tags"], num_shards=1)
    session = open_session(small, {"lr": 0.1}, 0)
    TunedModel.of(session, prepared).write().overwrite().save(str(tmp_path / "tagger"))
    scored = TunedModel.load(str(tmp_path / "tagger")).transform(df)
    assert scored.columns[-2:] == ["rawPrediction", "prediction"]
    assert scored.schema["prediction"].dataType.simpleString() == "array<int>"
    for row in scored.collect():
        inputs = tuple(np.array([row[column]]) for column in columns)
        (expected,) = session.predict(inputs)
        assert np.allclose(row.rawPrediction.toArray(), expected.flatten())
        assert row.prediction == expected[0].argmax(axis=1).tolist()


def test_metrics_over_shards_are_those_of_all_rows(spark: SparkSession, store: Store) -> None:
    df, _ = tokens(spark, 24)
    prepared = prepare(
        df, store, feature_columns=["input_ids", "attention_mask"], label_columns=["tags"], num_shards=2, seed=1
    )
    assert [(group.name, group.shape, group.dtype) for group in (*prepared.inputs, *prepared.labels)] == [
        ("input_ids", (TOKENS,), "int64"),
        ("attention_mask", (TOKENS,), "int64"),
        ("tags", (TOKENS,), "int64"),
    ]
    params = {"lr": 1e-3, "layers": "embeddings", "folder": str(minilm())}
    session = open_session(tagger, params, 0)
    rows = load_rows(prepared, "train", prepared.rows("train"))
    data = Tensors(rows.inputs, rows.labels, len(rows.labels[0]))
    session.train(data, np.arange(data.rows), ends_epoch=True)
    sums = session.evaluate(data)
    (scores,) = session.predict(data.inputs)
    for name in ("token_accuracy", "entity_f1"):
        first, second = (METRICS[name].part(scores[half], data.labels[0][half]) for half in (np.s_[:7], np.s_[7:]))
        assert np.array_equal(sums[name], first + second)
