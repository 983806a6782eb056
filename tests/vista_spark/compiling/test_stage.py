"""``TensorPipeline`` over DataFrames: columns of every kind, nulls, rows that the model refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vista_spark import TensorPipeline, compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

NAMES = ["sepal.length", "sepal width", "petal_length", "petal_width"]


@pytest.fixture(scope="module")
def iris() -> pd.DataFrame:
    table = load_iris(as_frame=True).frame
    table.columns = [*NAMES, "target"]
    return table.assign(kind=np.array(["setosa", "versicolor", "virginica"])[table["target"]])


def test_columns_by_name_with_labels_that_are_texts(spark: SparkSession, iris: pd.DataFrame) -> None:
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(iris[NAMES], iris["kind"])
    stage = TensorPipeline(compiled=compile_pipeline(model), batchSize=7)
    found = stage.transform(spark.createDataFrame(iris)).toPandas()
    assert found["prediction"].tolist() == model.predict(iris[NAMES]).tolist()
    np.testing.assert_array_equal(
        np.stack(found["probability"].map(lambda v: v.toArray())), model.predict_proba(iris[NAMES])
    )
    assert list(found.columns) == [*iris.columns, "prediction", "probability"]


def test_vectors_sparse_and_dense_and_arrays(spark: SparkSession, iris: pd.DataFrame) -> None:
    table = iris[NAMES].to_numpy()
    compiled = compile_pipeline(RandomForestClassifier(5, random_state=0).fit(table, iris["target"]))
    table[::3, 0] = 0.0
    expected = compiled.predict(table).tolist()
    mixed = [
        (place, Vectors.sparse(4, {n: v for n, v in enumerate(row) if v}) if place % 2 else Vectors.dense(row))
        for place, row in enumerate(table.tolist())
    ]
    stage = TensorPipeline(compiled=compiled, probabilityCol="")
    for df in (
        spark.createDataFrame(mixed, ["id", "features"]),
        spark.createDataFrame(list(enumerate(table.tolist())), "id int, features array<double>"),
    ):
        found = stage.transform(df).orderBy("id").toPandas()
        assert found["prediction"].tolist() == expected
        assert "probability" not in found.columns


def test_a_column_goes_to_python_once(spark: SparkSession, iris: pd.DataFrame) -> None:
    model = RandomForestClassifier(5, random_state=0).fit(iris[NAMES], iris["target"])
    by_column, df = TensorPipeline(compiled=compile_pipeline(model)), spark.createDataFrame(iris)
    lists = df.withColumn("features", F.array(*(F.col(f"`{name}`") for name in NAMES)))
    by_list = TensorPipeline(compiled=compile_pipeline(model), featuresCol="features")
    for stage, table in ((by_column, df), (by_list, lists)):
        found = stage.transform(table)
        assert len(re.findall(r"AS c\d+#", found._jdf.queryExecution().analyzed().toString())) == len(table.columns)
        assert found.toPandas()["prediction"].tolist() == model.predict(iris[NAMES]).astype(float).tolist()
    # Whole numbers are cast, and so are columns of their own.
    whole = df.withColumn("petal_width", F.col("petal_width").cast("int"))
    plan = by_column.transform(whole)._jdf.queryExecution().analyzed().toString()
    assert len(re.findall(r"AS c\d+#", plan)) == len(df.columns) + 1


def test_columns_that_no_tree_looks_at_are_not_read(spark: SparkSession, iris: pd.DataFrame) -> None:
    """They have to be there all the same, as numbers: the table of the model has them."""
    model = HistGradientBoostingClassifier(max_iter=1, max_leaf_nodes=2).fit(iris[NAMES], iris["target"] == 2)
    compiled = compile_pipeline(model)
    wanted = compiled.rewritten().program.numeric
    stage, df = TensorPipeline(compiled=compiled), spark.createDataFrame(iris[NAMES])
    reads = stage._reads(df, compiled, ["predict"])
    assert {place for place, name in enumerate(NAMES) if name in str(reads[f"column {place}"])} == wanted
    assert len(wanted) == 1
    found = stage.transform(df).toPandas()
    assert found["prediction"].tolist() == model.predict(iris[NAMES]).astype(float).tolist()
    unread = NAMES[min(set(range(4)) - wanted)]
    with pytest.raises(ColumnError, match="sepal"):
        stage.transform(df.drop(unread))
    with pytest.raises(ColumnError, match="takes numbers"):
        stage.transform(df.withColumn(unread, F.lit("text")))


def test_several_outputs_are_a_vector_or_texts(spark: SparkSession, iris: pd.DataFrame) -> None:
    table, wide = iris[NAMES].to_numpy(), np.array(["narrow", "wide"])[(iris["petal_width"] > 1).astype(int)]
    rows = [(place, row) for place, row in enumerate(table.tolist())] + [(150, None)]
    df = spark.createDataFrame(rows, "id int, features array<double>")
    for target, texts in ((np.stack([iris["kind"], wide], axis=1).astype(str), True), (table[:, :2] > 3, False)):
        model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(table, target)
        found = TensorPipeline(compiled=compile_pipeline(model)).transform(df)
        assert found.schema["prediction"].dataType.simpleString() == ("array<string>" if texts else "vector")
        collected = found.orderBy("id").collect()
        assert collected[150]["prediction"] is None
        assert [list(row["prediction"]) for row in collected[:150]] == model.predict(table).tolist()
        # One vector: the probabilities of the first output, then those of the second.
        shares = np.array([row["probability"].toArray() for row in collected[:150]])
        np.testing.assert_array_equal(shares, np.concatenate(model.predict_proba(table), axis=1))


def test_nulls_are_missing_where_the_model_takes_missing(spark: SparkSession, iris: pd.DataFrame) -> None:
    model = HistGradientBoostingClassifier(max_iter=3).fit(iris[NAMES], iris["target"])
    holes = iris[NAMES].mask(np.random.default_rng(0).random((150, 4)) < 0.2)
    rows = [[None if np.isnan(value) else value for value in row] for row in holes.to_numpy().tolist()]
    df = spark.createDataFrame(rows, ", ".join(f"`{name}` double" for name in NAMES))
    found = TensorPipeline(compiled=compile_pipeline(model)).transform(df).toPandas()
    assert found["prediction"].tolist() == model.predict(holes).tolist()


@pytest.mark.parametrize("errors", ["null", "drop", "raise"])
def test_a_row_that_the_model_refuses(spark: SparkSession, iris: pd.DataFrame, errors: str) -> None:
    compiled = compile_pipeline(LogisticRegression(max_iter=500).fit(iris[NAMES].to_numpy(), iris["target"]))
    rows = [(0, [5.0, 3.0, 1.0, 0.2]), (1, None), (2, [5.0, float("nan"), 1.0, 0.2]), (3, [5.0, None, 1.0, 0.2])]
    df = spark.createDataFrame(rows, "id int, features array<double>")
    found = TensorPipeline(compiled=compiled, errors=errors, errorCol="why").transform(df)
    if errors == "raise":
        with pytest.raises(Exception, match=r"LogisticRegression does not take|\bnull\b"):
            found.collect()
        return
    collected = found.orderBy("id").collect()
    assert [row["id"] for row in collected] == ([0] if errors == "drop" else [0, 1, 2, 3])
    assert collected[0]["prediction"] == 0.0
    if errors == "null":
        assert [row["why"] for row in collected[:2]] == [None, "null"]
        assert {row["why"] for row in collected[2:]} == {"NaN or an infinity, which LogisticRegression does not take"}
        assert [row["prediction"] for row in collected[1:]] == [None] * 3


def test_an_empty_frame_and_rows_of_a_regression(spark: SparkSession) -> None:
    stage = TensorPipeline(compiled=compile_pipeline(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])))
    df = spark.createDataFrame([([2.0],)], "features array<float>")
    assert stage.transform(df).first()["prediction"] == pytest.approx(5.0)  # type: ignore[index]
    assert stage.transform(df.where("false")).collect() == []


def test_what_cannot_be_read_is_refused_before_a_job(spark: SparkSession, iris: pd.DataFrame) -> None:
    by_name = TensorPipeline(compiled=compile_pipeline(LinearRegression().fit(iris[NAMES], iris["target"])))
    df = spark.createDataFrame(iris)
    for wrong, message in (
        (df.drop("sepal.length"), "sepal.length"),
        (df.withColumn("petal_width", df["kind"]), "'petal_width' is string"),
        (df.withColumn("prediction", df["target"]), "prediction"),
    ):
        with pytest.raises(ColumnError, match=message):
            by_name.transform(wrong)
    with pytest.raises(ColumnError, match="2 inputCols for a model of 4 columns"):
        by_name.copy().setInputCols(["petal_width", "target"]).transform(df)
    with pytest.raises(InvalidArgumentError, match="no compiled pipeline"):
        TensorPipeline().transform(df)
    with pytest.raises(TypeError, match=r"compile_pipeline\(model\)"):
        TensorPipeline(compiled=LinearRegression())  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="one name"):
        TensorPipeline(
            compiled=compile_pipeline(LogisticRegression(max_iter=500).fit(iris[NAMES], iris["kind"])),
            predictionCol="a",
            probabilityCol="a",
        ).transform(df)


def test_lists_of_another_length_fail_the_job(spark: SparkSession) -> None:
    stage = TensorPipeline(compiled=compile_pipeline(LinearRegression().fit([[0.0, 1.0], [1.0, 1.0]], [1.0, 3.0])))
    df = spark.createDataFrame([([1.0],), ([1.0, 2.0],)], "features array<double>").coalesce(1)
    with pytest.raises(Exception, match="rows of 1 to 2 features for a model that was fitted on 2"):
        stage.transform(df).collect()
