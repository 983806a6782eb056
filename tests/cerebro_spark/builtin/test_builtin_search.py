"""Built-in models in a search, from a table of images or texts to predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from cerebro_spark import GridSearch, SparkBackend
from cerebro_spark.builtin import load_source
from cerebro_spark.errors import InvalidArgumentError, LabelError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from udfs.store import Store

pytest.importorskip("torch")

from real_inputs import foolbox_images, minilm, mobilenet_v2_weights
from texts import TOKENIZERS, sentences, tiny_bert


@dataclass
class Context:
    """The part of a request's context that a built-in model reads."""

    spark: SparkSession


def train(spark: SparkSession, store: Store, document: dict[str, Any], **space: list[Any]) -> tuple[Any, Any]:
    source = load_source(document["source"], document, Context(spark))
    search = GridSearch(
        backend=SparkBackend(spark, num_workers=1, threads=1),
        store=store,
        trainer_fn=source.trainer_fn,
        search_space={**source.search_space, **space},
        progress=False,
        **source.settings,
    )
    table = source.convert_table(spark.read.parquet(document["table"]))
    return search.fit(table), table


def test_a_frozen_mobilenet_trains_on_paths_of_images(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    table = str(tmp_path / "photos.parquet")
    rows = [(str(path), place % 2) for place, (path, _) in enumerate(foolbox_images()[:12])]
    rows.append((str(tmp_path / "none.jpg"), 1))  # is left out
    spark.createDataFrame(rows, "photo string, kind int").coalesce(2).write.parquet(table)
    document = {
        "source": {"builtin": "mobilenet_v2", "training": "frozen", "weights": str(mobilenet_v2_weights())},
        "table": table,
        "feature_columns": ["photo"],
        "label_columns": ["kind"],
        "settings": {"image_size": 32, "num_epochs": 1, "max_length": None},
    }
    selection, converted = train(spark, store, document, lr=[1e-2], batch_size=[8], trainable_blocks=[0])
    assert selection.best.status == "finished"
    assert 0 <= selection.best.metric <= 1
    predicted = selection.transform(converted.where("kind = 0").limit(2)).collect()
    assert [row["prediction"] in {0, 1} for row in predicted] == [True, True]


@pytest.mark.skipif(not TOKENIZERS, reason='needs the extra "text"')
def test_an_encoder_learns_from_texts(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    table = str(tmp_path / "texts.parquet")
    spark.createDataFrame(sentences(60), "label int, text string").coalesce(2).write.parquet(table)
    document = {
        "source": {"builtin": "bert_base", "training": "full", "weights": str(tiny_bert())},
        "table": table,
        "feature_columns": ["text"],
        "label_columns": ["label"],
        "settings": {"max_length": 12, "num_epochs": 4},
    }
    selection, _ = train(spark, store, document, lr=[1e-2], batch_size=[8])
    assert selection.best.metric > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("training", ["frozen", "full"])
def test_pretrained_minilm_learns_from_texts(spark: SparkSession, store: Store, tmp_path: Path, training: str) -> None:
    table = str(tmp_path / "texts.parquet")
    spark.createDataFrame(sentences(60), "label int, text string").coalesce(2).write.parquet(table)
    document = {
        "source": {"builtin": "bert_base", "training": training, "weights": str(minilm())},
        "table": table,
        "feature_columns": ["text"],
        "label_columns": ["label"],
        "settings": {"max_length": 16, "num_epochs": 2},
    }
    selection, _ = train(spark, store, document, lr=[1e-3], batch_size=[8], trainable_blocks=[1])
    assert selection.best.metric == 1.0


def test_whole_floats_are_classes(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "rows.parquet")
    rows = [("a.png", 0.0, 0.5), ("b.png", 2.0, 1.0), ("c.png", float("nan"), 1.0), ("d.png", None, 1.0)]
    spark.createDataFrame(rows, "photo string, kind double, share double").coalesce(1).write.parquet(table)
    document: dict[str, Any] = {"table": table, "feature_columns": ["photo"], "label_columns": ["kind"]}
    source = load_source({"builtin": "resnet50", "training": "full"}, document, Context(spark))
    assert source.trainer_fn.classes == 3  # type: ignore[attr-defined]
    converted = source.convert_table(spark.read.parquet(table))
    assert dict(converted.dtypes)["kind"] == "bigint"
    assert [row[0] for row in converted.select("kind").collect()] == [0, 2, None, None]
    shares = document | {"label_columns": ["share"], "settings": {"num_classes": 2}}
    with pytest.raises(LabelError, match=r"whole numbers from 0, got 0.5 in 'share'"):
        load_source({"builtin": "resnet50", "training": "full"}, shares, Context(spark))


def test_columns_and_labels_are_checked_before_training(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "rows.parquet")
    spark.createDataFrame([("a.png", "cat", -1)], "photo string, kind string, number int").write.parquet(table)
    document: dict[str, Any] = {"table": table, "feature_columns": ["photo"], "label_columns": ["kind"]}
    source = {"builtin": "resnet50", "training": "full"}
    with pytest.raises(LabelError, match=r"got 'kind' of type string.*StringIndexer"):
        load_source(source, document, Context(spark))
    with pytest.raises(LabelError, match=r"got values from -1 to -1 in 'number'"):
        load_source(source, document | {"label_columns": ["number"]}, Context(spark))
    with pytest.raises(InvalidArgumentError, match=r"feature_columns must be columns of the table .* got 'foto'"):
        load_source(source, document | {"feature_columns": ["foto"]}, Context(spark))
    with pytest.raises(InvalidArgumentError, match=r"feature_columns must name one column"):
        load_source(source, document | {"feature_columns": ["photo", "number"]}, Context(spark))
    missing = {**source, "weights": str(tmp_path / "resnet50.pth")}
    with pytest.raises(InvalidArgumentError, match=r"weights must be a file .* got '.*resnet50.pth', which does not"):
        load_source(missing, document | {"label_columns": ["number"]}, Context(spark))
    with pytest.raises(InvalidArgumentError, match=r"weights must be a path or URI, got 3"):
        load_source({**source, "weights": 3}, document | {"label_columns": ["number"]}, Context(spark))
    with pytest.raises(InvalidArgumentError, match=r"got 'learning_rate'"):
        load_source(source, document | {"search_space": {"learning_rate": {}}}, Context(spark))
