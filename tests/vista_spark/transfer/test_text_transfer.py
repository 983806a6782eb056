from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.ml.classification import LogisticRegression
from real_inputs import clothing_reviews, minilm
from texts import sentences

pytest.importorskip("torch")
pytest.importorskip("tokenizers", reason='pip install "cerebro-spark[text]"')

from udfs.inference import TextError
from vista_spark import FeatureTransfer, TextFeaturizer, roster
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("_tiny_bert")]

ROWS = 30
PLANS = ("auto", "staged", "eager", "lazy")


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """What kind of sentence it is, to be told from a number that knows nothing, and from the text."""
    kinds = [(number, float(kind), float(number % 7), text) for number, (kind, text) in enumerate(sentences(ROWS))]
    structured = spark.createDataFrame([row[:3] for row in kinds], "id long, label double, noise double")
    texts = [(number, None if number == 4 else text) for number, _, _, text in kinds]
    return structured.cache(), spark.createDataFrame(texts, "id long, review string").cache()


def transfer(**settings: Any) -> FeatureTransfer:
    defaults = {
        "model": "tiny_bert",
        "layers": 3,
        "downstream": LogisticRegression(maxIter=5),
        "test_fraction": 0.4,
        "experiment": None,
        "progress": False,
        "batch_size": 4,
    }
    return FeatureTransfer(**defaults | settings)


def run(task: FeatureTransfer, tables: tuple[DataFrame, DataFrame]) -> Any:
    return task.run(*tables, feature_columns=["noise"], image_column="review")


@pytest.mark.slow
def test_every_plan_gives_the_same(tables: tuple[DataFrame, DataFrame]) -> None:
    found = {plan: run(transfer(plan=plan), tables) for plan in PLANS}
    staged = found["staged"]
    assert [stage.source for stage in staged.choice.logical.stages] == [None, 0, 1]
    assert [layer.name for layer in staged.layers] == ["layer1", "layer2", "layer3"]
    assert staged.best.score > 0.9 > staged.baseline.score
    assert staged.dropped == {"text: null": 1}
    for result in found.values():
        assert result.dropped == staged.dropped
        for layer, expected in zip(result.layers, staged.layers, strict=True):
            np.testing.assert_allclose(
                layer.model.coefficients.toArray(), expected.model.coefficients.toArray(), atol=1e-4
            )
            assert layer.score == pytest.approx(expected.score)


def test_the_best_model_reads_texts(tables: tuple[DataFrame, DataFrame]) -> None:
    result = run(transfer(plan="eager", pooling="cls", max_length=8), tables)
    assert isinstance(result.best_model.stages[0], TextFeaturizer)
    assert result.best_model.stages[0].getMaxLength() == 8
    scored = result.best_model.transform(tables[0].join(tables[1], "id")).collect()
    assert len(scored) == ROWS
    (bad,) = (row for row in scored if row["prediction"] is None)
    assert bad["transfer_error"] == "text: null"
    assert np.mean([row["prediction"] == row["label"] for row in scored]) > 0.9


def test_what_is_wrong_is_said(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, texts = tables
    with pytest.raises(TextError, match="null: id 4 and others"):
        run(transfer(plan="eager", errors="raise"), tables)
    with pytest.raises(ColumnError, match="column 'id' of the text table must be a string, got bigint"):
        transfer().run(structured, texts, feature_columns=["noise"], image_column="id")
    with pytest.raises(InvalidArgumentError, match="hog"):
        run(transfer(hog=True), tables)
    with pytest.raises(InvalidArgumentError, match=r"pooling must be one of mean, cls, none, .*tiny_bert reads text"):
        run(transfer(pooling="max2x2"), tables)
    with pytest.raises(InvalidArgumentError, match="image_size must be None for a model of texts, got 64"):
        transfer(image_size=64).explain()
    with pytest.raises(InvalidArgumentError, match="max_length must be None for a model of images, got 8"):
        transfer(model="squeezenet1_1", max_length=8).explain()


def test_the_plan_in_words() -> None:
    said = transfer(model="minilm_l6", layers=["layer2", "layer6"]).explain()
    assert "input_ids + attention_mask -> layer2" in said
    assert roster.card("minilm_l6").kind == "text"


@pytest.mark.slow
def test_real_reviews_say_more_than_their_columns(spark: SparkSession) -> None:
    table = pq.read_table(
        clothing_reviews(), columns=["Age", "Positive Feedback Count", "Review Text", "Recommended IND"]
    ).to_pandas()
    table = table[table["Review Text"].str.len() > 40]
    both = [table[table["Recommended IND"] == wanted].head(200) for wanted in (0, 1)]
    rows = [row for pair in zip(*(half.itertuples(index=False) for half in both), strict=True) for row in pair]
    structured = spark.createDataFrame(
        [(number, float(row[3]), int(row[0]), int(row[1])) for number, row in enumerate(rows)],
        "id long, label double, age long, feedback long",
    )
    texts = spark.createDataFrame([(number, str(row[2])) for number, row in enumerate(rows)], "id long, text string")
    result = FeatureTransfer(
        model="minilm_l6",
        weights=str(minilm()),
        layers=["layer3", "layer6"],
        downstream=LogisticRegression(maxIter=20, regParam=0.15),
        max_length=64,
        test_fraction=0.3,
        batch_size=16,
        plan="staged",
        experiment=None,
        progress=False,
    ).run(structured, texts, feature_columns=["age", "feedback"], image_column="text")
    assert result.train_rows + result.test_rows == 400
    # What was learned of meaning stands in the way of opinion: the middle of the network knows more of it than the top.
    assert result.best.name == "layer3"
    assert result.best.score > result.baseline.score + 0.1
