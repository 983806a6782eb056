"""What a downstream estimator reads of the table beside the features, and what it learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import PCA, Binarizer, Imputer, IndexToString, StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

from vista_spark.errors import InvalidArgumentError
from vista_spark.transfer._downstream import (
    check_width,
    columns_read,
    default_evaluator,
    is_classification,
    learned_column,
    point_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

COLUMNS = ("id", "kind", "price", "age", "weight", "scaled", "word")

pytestmark = pytest.mark.usefixtures("spark")  # Spark ML's own stages are made in its JVM


@pytest.fixture
def pipeline(spark: SparkSession) -> Callable[..., Pipeline]:  # it has to be there
    def of(*stages: Any) -> Pipeline:
        return Pipeline(stages=list(stages))

    return of


def read(estimator: Any, evaluator: Any = None) -> tuple[tuple[str, ...], ...]:
    columns = columns_read(point_at(estimator, "transfer_features", "label"), evaluator, COLUMNS)
    return columns.training, columns.prediction, columns.nullable


def test_a_stage_by_itself_reads_its_weights_to_train() -> None:
    assert read(LogisticRegression()) == ((), (), ())
    assert read(LogisticRegression(weightCol="weight")) == (("weight",), (), ())
    evaluator = MulticlassClassificationEvaluator(weightCol="weight")
    assert read(LogisticRegression(), evaluator) == (("weight",), (), ())


def test_columns_of_a_pipeline() -> None:
    """Those that a stage makes are not the table's, even where the table has one of that name."""
    stages = [
        StringIndexer(inputCol="kind", outputCol="kind_number"),
        Imputer(inputCols=["price", "age"], outputCols=["whole_price", "whole_age"]),
        StringIndexer(inputCol="word", outputCol="word_number", handleInvalid="keep"),
        VectorAssembler(inputCols=["transfer_features", "kind_number", "whole_price", "age"], outputCol="all"),
        StandardScaler(inputCol="all", outputCol="scaled"),
        LogisticRegression(featuresCol="scaled", weightCol="weight"),
    ]
    expected = ("kind", "price", "age", "word", "weight")
    assert read(Pipeline(stages=stages)) == (expected, expected[:-1], ("price", "word"))
    tuned = CrossValidator(
        estimator=Pipeline(stages=stages),
        evaluator=MulticlassClassificationEvaluator(weightCol="weight"),
        estimatorParamMaps=ParamGridBuilder().build(),
    )
    assert read(tuned) == (expected, expected[:-1], ("price", "word"))


def test_what_is_learned(pipeline: Callable[..., Pipeline]) -> None:
    index = StringIndexer(inputCol="word", outputCol="number")
    cut = Binarizer(inputCol="number", outputCol="is_high")
    cases: list[tuple[Any, str]] = [
        (LogisticRegression(labelCol="anything"), "word"),  # the transfer sets it
        (pipeline(LogisticRegression()), "word"),
        (pipeline(index, LogisticRegression()), "number"),
        (pipeline(index, cut, LogisticRegression()), "is_high"),
        (pipeline(index, cut, LogisticRegression(labelCol="number")), "number"),
        (pipeline(StringIndexer(inputCol="kind", outputCol="k"), LogisticRegression()), "word"),
        (
            pipeline(StringIndexer(inputCols=["kind", "word"], outputCols=["k", "w"]), LogisticRegression()),
            "w",
        ),
    ]
    for estimator, expected in cases:
        assert learned_column(estimator, "word", COLUMNS) == expected
        tuned = CrossValidator(estimator=estimator, evaluator=MulticlassClassificationEvaluator())
        assert learned_column(tuned, "word", COLUMNS) == expected
        pointed = point_at(tuned, "transfer_features", expected)
        assert pointed.getEvaluator().getLabelCol() == expected
    with pytest.raises(
        InvalidArgumentError, match=r"LogisticRegression .*labelCol='kind'.*'word'.*label_column='kind'"
    ):
        learned_column(pipeline(LogisticRegression(labelCol="kind")), "word", COLUMNS)


def test_the_width_of_a_pca(pipeline: Callable[..., Pipeline]) -> None:
    scaled = StandardScaler(inputCol="transfer_features", outputCol="s")
    for before, column in (((), "transfer_features"), ((scaled,), "s")):
        pca = PCA(k=3, inputCol=column, outputCol="few")
        both = pipeline(*before, pca, LogisticRegression(featuresCol="few"))
        check_width(both, "transfer_features", lambda: 3)
        with pytest.raises(InvalidArgumentError, match=r"PCA\(k=3\).*2 structured features.*k=2 or less"):
            check_width(both, "transfer_features", lambda: 2)
        tuned = CrossValidator(
            estimator=both,
            evaluator=MulticlassClassificationEvaluator(),
            estimatorParamMaps=ParamGridBuilder().addGrid(pca.k, [1, 4]).build(),
        )
        with pytest.raises(InvalidArgumentError, match=r"PCA\(k=4\)"):
            check_width(tuned, "transfer_features", lambda: 3)
    other = pipeline(PCA(k=9, inputCol="vector", outputCol="few"), LogisticRegression(featuresCol="few"))
    check_width(other, "transfer_features", lambda: 2)


def test_a_stage_behind_the_classifier_does_not_make_it_a_regression(pipeline: Callable[..., Pipeline]) -> None:
    named = pipeline(LogisticRegression(), IndexToString(inputCol="prediction", outputCol="name", labels=["a", "b"]))
    assert is_classification(named)
    assert is_classification(pipeline(named))
    assert isinstance(default_evaluator(named), MulticlassClassificationEvaluator)
    assert not is_classification(pipeline(LinearRegression()))
    assert not is_classification(pipeline())
