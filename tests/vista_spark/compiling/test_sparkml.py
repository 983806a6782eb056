"""Compiled models of Spark ML against Spark ML itself: the same columns, classes equal, values within 1e-6."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml import classification as C
from pyspark.ml import clustering as K
from pyspark.ml import feature as F
from pyspark.ml import regression as R
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import TensorPipeline, compile_pipeline, replace_stages
from vista_spark.compiling.sparkml import _saved_trees

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


@pytest.fixture(scope="module")
def plain(spark: SparkSession, table: DataFrame) -> DataFrame:
    """Rows of finite numbers, and some for each class of naive Bayes."""
    rows = [(Vectors.dense(one),) for one in ([1.0, 1.0, 9.0], [-0.0, 5.0, 0.0], [1e3, 1e-300, 2.0])]
    rows += [(Vectors.sparse(3, {1: 2.0}),)]
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        TREES["boosting"],
        *(pytest.param(one, marks=pytest.mark.extended) for name, one in TREES.items() if name != "boosting"),
    ],
    ids=["boosting", *(name for name in TREES if name != "boosting")],
)
@pytest.mark.connect_slow
def test_trees_with_categories(table: DataFrame, hard: DataFrame, estimator: Any) -> None:
    model = estimator().fit(indexed(table))
    same(model, hard.withColumnRenamed("features", "indexed"))


@pytest.mark.extended
@pytest.mark.parametrize("alone", [0, 3])
def test_a_category_that_no_split_has_seen(table: DataFrame, hard: DataFrame, alone: int) -> None:
    """It goes to the side of more categories: Spark ML looks it up in the smaller set."""
    marked = indexed(table).selectExpr("indexed", f"double(kind = {alone}) as label")
    tree = C.DecisionTreeClassifier(featuresCol="indexed", maxDepth=1).fit(marked)
    same(tree, hard.withColumnRenamed("features", "indexed"))


@pytest.mark.extended
def test_thresholds_of_classes(table: DataFrame, hard: DataFrame) -> None:
    forest = C.RandomForestClassifier(labelCol="three", numTrees=3).setThresholds([0.2, 0.5, 0.0]).fit(table)
    same(forest, hard)


LINEAR = {
    "logistic": lambda: C.LogisticRegression(labelCol="two", regParam=0.01),
    "logistic with a threshold": lambda: C.LogisticRegression(labelCol="two", threshold=0.8),
    "logistic with thresholds": lambda: C.LogisticRegression(labelCol="two", thresholds=[0.9, 0.3]),
    "two classes as many": lambda: C.LogisticRegression(labelCol="two", family="multinomial"),
    "three classes": lambda: C.LogisticRegression(labelCol="three", regParam=0.01),
    "three classes with thresholds": lambda: C.LogisticRegression(labelCol="three", thresholds=[0.2, 0.1, 0.7]),
    "support vectors": lambda: C.LinearSVC(labelCol="two", threshold=0.1, maxIter=5),
    "regression": lambda: R.LinearRegression(labelCol="value"),
    "generalised, log": lambda: R.GeneralizedLinearRegression(
        labelCol="positive", family="gamma", link="log", linkPredictionCol="eta"
    ),
}


@pytest.mark.extended
@pytest.mark.parametrize("estimator", LINEAR.values(), ids=LINEAR.keys())
def test_linear_models(table: DataFrame, hard: DataFrame, plain: DataFrame, estimator: Any) -> None:
    fresh = estimator()
    # Spark ML has rules of its own for infinite scores of many classes: such rows are refused.
    many = fresh.getLabelCol() == "three" or (fresh.hasParam("family") and fresh.getFamily() == "multinomial")
    same(fresh.fit(table), plain if many else hard)


def ones(data: DataFrame) -> DataFrame:
    """Features that are 0 or 1."""
    binarizer = F.Binarizer(inputCol="features", outputCol="marks", threshold=0.5)
    return binarizer.transform(data).drop("features").withColumnRenamed("marks", "features")


MODELS = {
    "bayes, gaussian": lambda: C.NaiveBayes(labelCol="three", modelType="gaussian"),
    "bayes, multinomial": lambda: C.NaiveBayes(labelCol="three", featuresCol="above"),
    "bayes, complement": lambda: C.NaiveBayes(labelCol="three", featuresCol="above", modelType="complement"),
    "perceptron": lambda: C.MultilayerPerceptronClassifier(labelCol="three", layers=[3, 4, 5, 3], maxIter=5, seed=1),
    "one against the rest": lambda: C.OneVsRest(classifier=C.LogisticRegression(maxIter=5), labelCol="three"),
    "means": lambda: K.KMeans(k=3, seed=1),
    "means by angle": lambda: K.KMeans(k=3, seed=1, distanceMeasure="cosine"),
}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", MODELS.values(), ids=MODELS.keys())
def test_other_models(table: DataFrame, plain: DataFrame, estimator: Any) -> None:
    fresh = estimator()
    data = table if fresh.getFeaturesCol() == "above" else plain
    same(fresh.fit(table), data, example=data)


@pytest.mark.extended
def test_bayes_of_marks(table: DataFrame, plain: DataFrame) -> None:
    model = C.NaiveBayes(labelCol="three", modelType="bernoulli").fit(ones(table))
    same(model, ones(plain))
    with pytest.raises(Exception, match="neither 0 nor 1, which NaiveBayesModel"):
        replace_stages(model).transform(plain).collect()


GENERALISED = [
    *(("gaussian", link, None) for link in ("identity", "log", "inverse")),
    *(("binomial", link, None) for link in ("logit", "probit", "cloglog")),
    *(("poisson", link, None) for link in ("log", "identity", "sqrt")),
    *(("gamma", link, None) for link in ("inverse", "log")),
    ("tweedie", None, 1.3),
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "link", "power"), GENERALISED)
def test_families_and_links(
    table: DataFrame, hard: DataFrame, family: str, link: str | None, power: float | None
) -> None:
    given: dict[str, Any] = {"link": link} if link else {"variancePower": power, "linkPower": 0.3}
    label = "two" if family == "binomial" else "positive"
    fresh = R.GeneralizedLinearRegression(family=family, labelCol=label, **given)
    same(fresh.setMaxIter(3).fit(table), hard)


def test_buckets_categories_and_what_is_missing(spark: SparkSession, table: DataFrame) -> None:
    stages = [
        F.Bucketizer(splits=[-float("inf"), -0.5, 0.0, 0.5, float("inf")], inputCol="a", outputCol="bucket"),
        F.OneHotEncoder(inputCols=["bucket", "kind"], outputCols=["marks", "kinds"]),
        F.Binarizer(inputCol="b", outputCol="above_zero"),
        F.VectorAssembler(inputCols=["marks", "kinds", "above_zero"], outputCol="put"),
        C.DecisionTreeClassifier(featuresCol="put", labelCol="two"),
    ]
    pairs = [(-0.0, 1.0), (0.0, None), (0.5, 0.0), (-0.5, -1.0)]
    rows = [(x, y, kind, 0.0) for x, y in pairs for kind in (0.0, 1.5, 3.0)]
    edges = spark.createDataFrame(rows, "a double, b double, kind double, two double").coalesce(1)
    model = Pipeline(stages=stages).fit(table)
    assert len(same(model, edges).stages) == 1
    for wrong in ((float("nan"), 0.0, 1.0, 0.0), (0.0, 0.0, 9.0, 0.0), (0.0, 0.0, -1.0, 0.0)):
        df = spark.createDataFrame([wrong], edges.schema)
        for one in (model, replace_stages(model)):
            with pytest.raises(Exception, match=r"NaN|Unseen|Negative|has not seen"):
                one.transform(df).collect()


@pytest.mark.extended
def test_an_imputer(spark: SparkSession) -> None:
    rows = [(1.0, None), (float("nan"), 2.0), (4.0, 0.0)]
    df = spark.createDataFrame(rows, "x double, y double").coalesce(1)
    model = F.Imputer(inputCols=["x", "y"], outputCols=["u", "v"], strategy="mean").fit(df)
    same(model, df, example=df)
    assert replace_stages(model).stages == [model]


@pytest.mark.extended
@pytest.mark.parametrize("handle", ["keep", "error", "skip"])
def test_an_indexer_of_vectors(table: DataFrame, hard: DataFrame, handle: str) -> None:
    model = F.VectorIndexer(inputCol="features", outputCol="out", maxCategories=5, handleInvalid=handle).fit(table)
    if handle != "error":
        same(model, hard)
        return
    same(model, table.select("features"))
    with pytest.raises(Exception, match="VectorIndexerModel has not seen"):
        replace_stages(model).transform(hard).collect()


@pytest.mark.extended
def test_selectors(table: DataFrame, hard: DataFrame) -> None:
    variance = F.VarianceThresholdSelector(outputCol="out", varianceThreshold=0.9).fit(table)
    best = F.UnivariateFeatureSelector(outputCol="out", labelCol="two", selectionMode="numTopFeatures")
    best.setFeatureType("continuous").setLabelType("categorical").setSelectionThreshold(2)
    for model in (variance, best.fit(table)):
        same(model, hard, example=hard)


SCALERS = {
    "standard": lambda: F.StandardScaler(inputCol="features", outputCol="out", withMean=True),
    "standard without a mean": lambda: F.StandardScaler(inputCol="features", outputCol="out"),
    "min and max": lambda: F.MinMaxScaler(inputCol="features", outputCol="out", min=-1, max=3),
    "greatest magnitude": lambda: F.MaxAbsScaler(inputCol="features", outputCol="out"),
    "robust": lambda: F.RobustScaler(inputCol="features", outputCol="out", withCentering=True),
    "components": lambda: F.PCA(inputCol="features", outputCol="out", k=2),
}


@pytest.mark.extended
@pytest.mark.parametrize("estimator", SCALERS.values(), ids=SCALERS.keys())
def test_scalers(table: DataFrame, hard: DataFrame, estimator: Any) -> None:
    same(estimator().fit(table), hard)


TRANSFORMERS = {
    "norm": lambda: F.Normalizer(inputCol="features", outputCol="out", p=3.0),
    "greatest": lambda: F.Normalizer(inputCol="features", outputCol="out", p=float("inf")),
    "product": lambda: F.ElementwiseProduct(inputCol="features", outputCol="out", scalingVec=Vectors.dense([2, 0, -1])),
    "slice": lambda: F.VectorSlicer(inputCol="features", outputCol="out", indices=[2, 0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("stage", TRANSFORMERS.values(), ids=TRANSFORMERS.keys())
def test_stages_that_are_not_fitted(table: DataFrame, hard: DataFrame, stage: Any) -> None:
    same(stage(), hard, example=table)


@pytest.mark.connect_slow
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
    np.testing.assert_allclose(compiled.predict_proba(rows), vectors_of(expected["probability"]))
    assert compiled.columns == ("a", "b", "kind")


@pytest.mark.extended
@pytest.mark.connect_slow
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


@pytest.mark.extended
@pytest.mark.connect_slow
def test_a_stage_of_each_kind_becomes_one_program(spark: SparkSession, table: DataFrame) -> None:
    """Texts, buckets, categories, a scaler, products, trees and names of classes."""
    texts = table.selectExpr("*", "element_at(array('low', 'Low', 'l\u00f6w', ' '), int(kind) + 1) as said")
    classes = F.StringIndexer(inputCol="said", outputCol="label").fit(texts)
    stages = [
        F.StringIndexer(inputCols=["said"], outputCols=["said_at"], handleInvalid="keep"),
        F.Bucketizer(splits=[-float("inf"), -0.5, 0.0, float("inf")], inputCol="a", outputCol="bucket"),
        F.OneHotEncoder(inputCols=["bucket", "said_at"], outputCols=["marks", "said_marks"]),
        F.VectorAssembler(inputCols=["marks", "said_marks", "b"], outputCol="put"),
        F.StandardScaler(inputCol="put", outputCol="scaled", withMean=True),
        F.Normalizer(inputCol="scaled", outputCol="unit", p=3.0),
        C.RandomForestClassifier(featuresCol="unit", labelCol="three", numTrees=3, maxDepth=3, seed=1),
        F.IndexToString(inputCol="prediction", outputCol="named", labels=["no", "perhaps", "y\u00e9s"]),
    ]
    model = Pipeline(stages=stages).fit(texts)
    rows = [(0.1, 0.2, one) for one in ("low", "LOW", "low ", "lo\u0308w", "", None)]
    unseen = spark.createDataFrame(rows, "a double, b double, said string").coalesce(1)
    data = texts.select("a", "b", "said").union(unseen)
    replaced = replace_stages(model)
    assert [type(stage).__name__ for stage in replaced.stages] == ["TensorPipeline"]
    truth, ours = model.transform(data).toPandas(), replaced.transform(data).toPandas()
    assert list(ours.columns) == list(truth.columns)
    for name in ("said_at", "bucket", "prediction", "named"):
        assert ours[name].tolist() == truth[name].tolist(), name
    np.testing.assert_allclose(vectors_of(ours["probability"]), vectors_of(truth["probability"]), rtol=1e-6)
    frame = data.toPandas()
    assert compile_pipeline(model).predict(frame).tolist() == truth["named"].tolist()
    # With handleInvalid="error" and "skip".
    strict, loose = classes, classes.copy().setHandleInvalid("skip")
    assert replace_stages(loose).transform(unseen).toPandas()["label"].tolist() == (
        loose.transform(unseen).toPandas()["label"].tolist()
    )
    with pytest.raises(Exception, match="a category that StringIndexerModel does not know"):
        replace_stages(strict).transform(unseen).collect()


@pytest.mark.extended
@pytest.mark.connect_slow
def test_words_are_counted_behind_a_tokeniser_that_is_kept(spark: SparkSession) -> None:
    texts = ["the fox saw the Fox", "a lazy dog", "quick  quick fox", "", "l\u00f6we und katze", "dog dog dog fox"]
    rows = [(text, float(number % 2)) for number, text in enumerate(texts * 3)]
    data = spark.createDataFrame(rows, "text string, label double").coalesce(1)
    stages = [
        F.Tokenizer(inputCol="text", outputCol="words"),
        F.CountVectorizer(inputCol="words", outputCol="counts", vocabSize=6, minDF=1.0),
        F.IDF(inputCol="counts", outputCol="weighted"),
        C.LogisticRegression(featuresCol="weighted", maxIter=3),
    ]
    model = Pipeline(stages=stages).fit(data)
    replaced = replace_stages(model)
    assert [type(stage).__name__ for stage in replaced.stages] == ["Tokenizer", "TensorPipeline"]
    unseen = data.select("text").union(spark.createDataFrame([("no such word",), ("FOX fox\tfox",)], "text string"))
    truth, ours = model.transform(unseen).toPandas(), replaced.transform(unseen).toPandas()
    assert list(ours.columns) == list(truth.columns)
    np.testing.assert_array_equal(vectors_of(ours["counts"]), vectors_of(truth["counts"]))
    np.testing.assert_array_equal(vectors_of(ours["weighted"]), vectors_of(truth["weighted"]))
    assert ours["prediction"].tolist() == truth["prediction"].tolist()
    # Words that are null, and no list at all.
    once = model.stages[1].copy().setBinary(True)
    lists = spark.createDataFrame([(["fox", None, "fox", "dog"],), ([],)], "words array<string>").coalesce(1)
    (alone,) = replace_stages(once).stages
    np.testing.assert_array_equal(
        vectors_of(alone.transform(lists).toPandas()["counts"]), vectors_of(once.transform(lists).toPandas()["counts"])
    )
    nothing = spark.createDataFrame([(None,)], "words array<string>")
    with pytest.raises(Exception, match="no list of words"):
        replace_stages(once).transform(nothing).collect()
    with pytest.raises(Exception, match=r"NullPointerException|FAILED_EXECUTE_UDF|Failed to execute"):
        once.transform(nothing).collect()
    with pytest.raises(UnsupportedOperatorError, match=r"CountVectorizerModel with minTF=0\.5 cannot be compiled"):
        compile_pipeline(once.copy().setMinTF(0.5))


def test_words_that_are_hashed(spark: SparkSession) -> None:
    words = [(["fox", None, "fox", "\u00e9t\u00e9", "e\u0301t\u00e9", "", "\U0001f642", "I\u0307", "x" * 99],), ([],)]
    lists = spark.createDataFrame(words, "words array<string>").coalesce(1)
    for options in ({"numFeatures": 7}, {"numFeatures": 1000, "binary": True}):
        same(F.HashingTF(inputCol="words", outputCol="counts", **options), lists)
    nothing = spark.createDataFrame([(None,)], "words array<string>")
    few = F.HashingTF(inputCol="words", outputCol="counts", numFeatures=7)
    with pytest.raises(Exception, match="no list of words"):
        replace_stages(few).transform(nothing).collect()
    with pytest.raises(Exception, match=r"NullPointerException|FAILED_EXECUTE_UDF|Failed to execute"):
        few.transform(nothing).collect()
    # Vectors of 262,144 numbers stay sparse as far as the linear model.
    many = F.HashingTF(inputCol="words", outputCol="counts")
    assert replace_stages(many).stages == [many]
    labelled = lists.withColumn("label", (functions.size("words") > 0).cast("double"))
    model = Pipeline(stages=[many, C.LogisticRegression(featuresCol="counts", maxIter=2)]).fit(labelled)
    truth = vectors_of(model.transform(lists).toPandas()["probability"])
    told = compile_pipeline(model, example=lists)
    np.testing.assert_allclose(told.predict_proba(lists.toPandas()), truth, rtol=1e-6)


@pytest.mark.connect_slow
def test_labels_that_may_be_numbers_are_kept(table: DataFrame) -> None:
    model = F.StringIndexer(inputCol="kind", outputCol="at").fit(table)
    assert replace_stages(model).stages == [model]
    assert replace_stages(model, example=table).stages == [model]
    marks = table.selectExpr("string(int(kind)) as kind")
    again = F.StringIndexer(inputCol="kind", outputCol="at").fit(marks)
    assert replace_stages(again).stages == [again]
    assert [type(stage).__name__ for stage in replace_stages(again, example=marks).stages] == ["TensorPipeline"]


def test_a_folder_that_only_spark_reaches_is_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "saved"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "part").write_text("trees")
    monkeypatch.setattr(_saved_trees.shutil, "rmtree", lambda *_, **__: pytest.fail("it is not on this machine"))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Path, "exists", lambda _: False)
        _saved_trees._remove(spark, folder)
    assert not folder.exists()


@pytest.mark.parametrize("policy", ["error", "skip", "keep"])
def test_what_an_assembler_does_without_a_number(spark: SparkSession, table: DataFrame, policy: str) -> None:
    assembler = F.VectorAssembler(inputCols=["a", "b"], outputCol="put", handleInvalid=policy)
    model = PipelineModel(
        [
            assembler,
            C.DecisionTreeClassifier(featuresCol="put", labelCol="two").fit(
                F.VectorAssembler(inputCols=["a", "b"], outputCol="put").transform(table)
            ),
        ]
    )
    rows = [(0.1, 0.2), (None, 0.3), (0.4, float("nan")), (float("inf"), 1.0)]
    df = spark.createDataFrame(rows, "a double, b double")
    if policy != "error":
        same(model, df)
        return
    same(model, df.limit(1))
    with pytest.raises(Exception, match="NaN, which VectorAssembler does not take"):
        replace_stages(model).transform(df).collect()
