"""Compiled models of Spark ML against Spark ML itself: the same columns, classes equal, values within 1e-6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml import classification as C  # noqa: N812
from pyspark.ml import feature as F  # noqa: N812
from pyspark.ml import regression as R  # noqa: N812
from pyspark.ml.linalg import Vectors

from vista_spark import TensorPipeline, compile_pipeline, replace_stages

if TYPE_CHECKING:
    from pyspark.ml import Transformer
    from pyspark.sql import DataFrame, SparkSession

ROWS = 80


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """Numbers of every kind; ``kind`` has four categories; the labels follow from the numbers."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(ROWS):
        a, b = rng.normal(size=2).round(2).tolist()
        kind = float(place % 4)
        score = a - 0.5 * b + (1.5 if kind in {0.0, 3.0} else -1.0) + rng.normal() * 0.3
        positive = [abs(a), abs(b), kind]
        rows.append(
            (
                place,
                a,
                b,
                kind,
                float(score > 0),
                float(score > 0) + float(score > 1),
                score,
                float(np.exp(score / 3)),
                Vectors.dense([a, b, kind]),
                Vectors.dense(positive),
            )
        )
    names = ["id", "a", "b", "kind", "two", "three", "value", "positive", "features", "above"]
    return spark.createDataFrame(rows, names).coalesce(1).cache()


def vectors_of(column: Any) -> Any:
    first = next(one for one in column if one is not None)
    if hasattr(first, "toArray"):
        return np.stack([one.toArray() for one in column])
    return column.to_numpy()


def same(model: Transformer, data: DataFrame, **options: Any) -> PipelineModel:
    """Replace all stages, and compare every column that the model adds."""
    replaced = replace_stages(model, **options)
    assert all(isinstance(stage, TensorPipeline) for stage in replaced.stages), replaced.stages
    truth, ours = model.transform(data).toPandas(), replaced.transform(data).toPandas()
    assert list(ours.columns) == list(truth.columns)
    assert len(ours) == len(truth)
    for name in truth.columns:
        if name in data.columns or not len(truth):
            continue
        expected, found = vectors_of(truth[name]), vectors_of(ours[name])
        if "prediction" in name and set(np.unique(expected)) <= set(range(5)):
            np.testing.assert_array_equal(found, expected, err_msg=name)
        scale = np.abs(expected[np.isfinite(expected)]).max(initial=0)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * scale, err_msg=name)
    return replaced


@pytest.fixture(scope="module")
def hard(spark: SparkSession, table: DataFrame) -> DataFrame:
    """Rows with NaN, infinities, unseen categories and zeros, beside plain ones."""
    nan, inf = float("nan"), float("inf")
    values = [
        [nan, 0.0, 1.0], [0.0, nan, 2.0], [0.1, 0.2, nan], [inf, 0.0, 0.0], [-inf, 1.0, 3.0], [0.0, 0.0, 0.0],
        [1.0, 1.0, 9.0], [1.0, 1.0, 0.5], [-0.0, -0.0, -0.0], [1e300, 1e-300, 2.0], [nan, nan, nan],
    ]  # fmt: skip
    rows = [(Vectors.dense(one),) for one in values] + [(Vectors.sparse(3, {1: 2.0}),)]
    return spark.createDataFrame(rows, ["features"]).union(table.select("features")).coalesce(1).cache()


def indexed(table: DataFrame) -> DataFrame:
    """The features with the third one known as a category."""
    indexer = F.VectorIndexer(inputCol="features", outputCol="indexed", maxCategories=5)
    return indexer.fit(table).transform(table)


TREES = {
    "tree": lambda: C.DecisionTreeClassifier(featuresCol="indexed", labelCol="three", maxDepth=4),
    "forest": lambda: C.RandomForestClassifier(featuresCol="indexed", labelCol="three", numTrees=5, maxDepth=4, seed=1),
    "boosting": lambda: C.GBTClassifier(featuresCol="indexed", labelCol="two", maxIter=3, maxDepth=3),
    "regression tree": lambda: R.DecisionTreeRegressor(featuresCol="indexed", labelCol="value", maxDepth=4),
    "regression forest": lambda: R.RandomForestRegressor(featuresCol="indexed", labelCol="value", numTrees=4, seed=1),
    "boosted regression": lambda: R.GBTRegressor(featuresCol="indexed", labelCol="value", maxIter=3, maxDepth=3),
}


@pytest.mark.parametrize("estimator", TREES.values(), ids=TREES.keys())
def test_trees_with_categories(table: DataFrame, hard: DataFrame, estimator: Any) -> None:
    model = estimator().fit(indexed(table))
    same(model, hard.withColumnRenamed("features", "indexed"))


def test_thresholds_of_classes(table: DataFrame, hard: DataFrame) -> None:
    forest = C.RandomForestClassifier(labelCol="three", numTrees=3, thresholds=[0.2, 0.5, 0.0]).fit(table)
    same(forest, hard)


LINEAR = {
    "logistic": lambda: C.LogisticRegression(labelCol="two", regParam=0.01),
    "logistic with a threshold": lambda: C.LogisticRegression(labelCol="two", threshold=0.8),
    "logistic with thresholds": lambda: C.LogisticRegression(labelCol="two", thresholds=[0.9, 0.3]),
    "two classes as many": lambda: C.LogisticRegression(labelCol="two", family="multinomial"),
    "three classes": lambda: C.LogisticRegression(labelCol="three", regParam=0.01),
    "three classes with thresholds": lambda: C.LogisticRegression(labelCol="three", regParam=0.1, thresholds=[0.2, 0.1, 0.7]),
    "support vectors": lambda: C.LinearSVC(labelCol="two", threshold=0.1, maxIter=5),
    "regression": lambda: R.LinearRegression(labelCol="value"),
    "survival": lambda: R.AFTSurvivalRegression(
        labelCol="positive", censorCol="two", quantileProbabilities=[0.1, 0.9], quantilesCol="quantiles"
    ),
    "generalised, log": lambda: R.GeneralizedLinearRegression(
        labelCol="positive", family="gamma", link="log", linkPredictionCol="eta"
    ),
}


@pytest.mark.parametrize("estimator", LINEAR.values(), ids=LINEAR.keys())
def test_linear_models(table: DataFrame, hard: DataFrame, estimator: Any) -> None:
    same(estimator().fit(table), hard)


SCALERS = {
    "standard": lambda: F.StandardScaler(inputCol="features", outputCol="out", withMean=True),
    "standard without a mean": lambda: F.StandardScaler(inputCol="features", outputCol="out"),
    "min and max": lambda: F.MinMaxScaler(inputCol="features", outputCol="out", min=-1, max=3),
    "greatest magnitude": lambda: F.MaxAbsScaler(inputCol="features", outputCol="out"),
    "robust": lambda: F.RobustScaler(inputCol="features", outputCol="out", withCentering=True),
    "components": lambda: F.PCA(inputCol="features", outputCol="out", k=2),
}


@pytest.mark.parametrize("estimator", SCALERS.values(), ids=SCALERS.keys())
def test_scalers(table: DataFrame, hard: DataFrame, estimator: Any) -> None:
    same(estimator().fit(table), hard)


TRANSFORMERS = {
    "norm": lambda: F.Normalizer(inputCol="features", outputCol="out", p=3.0),
    "greatest": lambda: F.Normalizer(inputCol="features", outputCol="out", p=float("inf")),
    "product": lambda: F.ElementwiseProduct(inputCol="features", outputCol="out", scalingVec=Vectors.dense([2.0, 0.0, -1.0])),
    "cosines": lambda: F.DCT(inputCol="features", outputCol="out"),
    "cosines back": lambda: F.DCT(inputCol="features", outputCol="out", inverse=True),
    "slice": lambda: F.VectorSlicer(inputCol="features", outputCol="out", indices=[2, 0]),
}


@pytest.mark.parametrize("stage", TRANSFORMERS.values(), ids=TRANSFORMERS.keys())
def test_stages_that_are_not_fitted(table: DataFrame, hard: DataFrame, stage: Any) -> None:
    same(stage(), hard, example=table)


def test_a_pipeline_becomes_one_program(table: DataFrame) -> None:
    stages = [
        F.VectorAssembler(inputCols=["a", "b", "kind"], outputCol="put"),
        F.StandardScaler(inputCol="put", outputCol="scaled", withMean=True),
        C.LogisticRegression(featuresCol="scaled", labelCol="two", rawPredictionCol="raw"),
    ]
    model = Pipeline(stages=stages).fit(table)
    replaced = same(model, table)
    assert len(replaced.stages) == 1
    compiled = compile_pipeline(model)
    rows = np.array(table.select("a", "b", "kind").collect())
    expected = model.transform(table).toPandas()
    np.testing.assert_array_equal(compiled.predict(rows), expected["prediction"])
    np.testing.assert_allclose(compiled.predict_proba(rows), np.stack(expected["probability"].map(lambda v: v.toArray())))
    assert compiled.columns == ("a", "b", "kind")


def test_stages_that_do_not_compile_are_kept(table: DataFrame) -> None:
    texts = table.selectExpr("*", "concat('w', id % 3, ' w', id % 5) as text")
    stages = [
        F.VectorAssembler(inputCols=["a", "b"], outputCol="numbers"),
        F.Tokenizer(inputCol="text", outputCol="words"),
        F.Word2Vec(inputCol="words", outputCol="meaning", vectorSize=3, minCount=1, seed=1),
        F.VectorAssembler(inputCols=["numbers", "meaning"], outputCol="features_"),
        F.StandardScaler(inputCol="features_", outputCol="scaled"),
        C.LogisticRegression(featuresCol="scaled", labelCol="two"),
    ]
    model = Pipeline(stages=stages).fit(texts)
    replaced = replace_stages(model)
    names = [type(stage).__name__ for stage in replaced.stages]
    assert names == ["TensorPipeline", "Tokenizer", "Word2VecModel", "VectorAssembler", "TensorPipeline"]
    truth, ours = model.transform(texts).toPandas(), replaced.transform(texts).toPandas()
    assert list(ours.columns) == list(truth.columns)
    np.testing.assert_array_equal(ours["prediction"], truth["prediction"])


@pytest.mark.parametrize("policy", ["error", "skip", "keep"])
def test_what_an_assembler_does_with_rows_that_lack_a_number(spark: SparkSession, table: DataFrame, policy: str) -> None:
    assembler = F.VectorAssembler(inputCols=["a", "b"], outputCol="put", handleInvalid=policy)
    model = PipelineModel([assembler, C.DecisionTreeClassifier(featuresCol="put", labelCol="two").fit(
        F.VectorAssembler(inputCols=["a", "b"], outputCol="put").transform(table))])
    rows = [(0.1, 0.2), (None, 0.3), (0.4, float("nan")), (float("inf"), 1.0)]
    df = spark.createDataFrame(rows, "a double, b double")
    if policy != "error":
        same(model, df)
        return
    same(model, df.limit(1))
    with pytest.raises(Exception, match="NaN, which VectorAssembler does not take"):
        replace_stages(model).transform(df).collect()
