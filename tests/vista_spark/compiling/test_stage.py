"""``TensorPipeline`` over DataFrames: columns of every kind, nulls, rows that the model refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vista_spark import TensorPipeline, compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

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


def test_functions_of_numpy_compute_integers_of_spark_as_doubles(spark: SparkSession) -> None:
    """A square of a byte does not overflow, and a logarithm has no 16 bits, whatever integers a column has."""
    table = np.array([[1.0], [12.0], [127.0]])
    for function in (np.square, np.log1p):
        model = make_pipeline(FunctionTransformer(function), LinearRegression()).fit(table, table[:, 0])
        stage = TensorPipeline(compiled=compile_pipeline(model), inputCols=["x"])
        for kind in ("byte", "short", "int", "bigint"):
            df = spark.createDataFrame([(int(x),) for (x,) in table], f"x {kind}").coalesce(1)
            found = stage.transform(df).orderBy("x").toPandas()["prediction"]
            np.testing.assert_allclose(found, model.predict(table), rtol=1e-12)


def plan_of(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().optimizedPlan().toString())


def test_columns_stay_with_spark_but_for_those_that_are_read(spark: SparkSession, iris: pd.DataFrame) -> None:
    """Nor does the model run if its results are not used, or twice if a filter uses them as well."""
    pytest.importorskip("pyspark", "4.1")
    model = RandomForestClassifier(5, random_state=0).fit(iris[NAMES], iris["target"])
    stage = TensorPipeline(compiled=compile_pipeline(model), probabilityCol="")
    scored = stage.transform(spark.createDataFrame(iris))
    (arguments,) = re.findall(r"ArrowEvalPython \[run\((.*)\)#", plan_of(scored.select("kind", "prediction")))
    assert arguments.count("#") == len(NAMES) + arguments.count("cerebro_spark_costly#")
    assert "ArrowEvalPython" not in plan_of(scored.select("kind"))
    second = scored.where("prediction = 1").select("prediction", "kind")
    assert plan_of(second).count("ArrowEvalPython") == 1
    assert second.count() == int((model.predict(iris[NAMES]) == 1).sum())


def test_vectors_of_parquet(spark: SparkSession, iris: pd.DataFrame, tmp_path: Path) -> None:
    """Spark's own Arrow UDFs fail over columnar files that have one, whether it is read, kept or turned to an array."""
    model = LogisticRegression(max_iter=1000).fit(iris[NAMES], iris["target"])
    lists = F.array(*(F.col(f"`{name}`") for name in NAMES))
    table = spark.createDataFrame(iris).withColumn("features", array_to_vector(lists))
    table.write.parquet(str(tmp_path / "iris"))
    read = spark.read.parquet(str(tmp_path / "iris"))
    numbers = read.withColumn("features", vector_to_array("features"))
    compiled = compile_pipeline(model)
    by_list = TensorPipeline(compiled=compiled, featuresCol="features")
    for stage, df in ((by_list, read), (by_list, numbers), (TensorPipeline(compiled=compiled), read)):
        found = stage.transform(df).toPandas()
        assert found["prediction"].tolist() == model.predict(found[NAMES]).astype(float).tolist()
        assert len(found) == len(iris)


def test_rows_go_to_python_whole_where_a_bad_one_fails_the_job(spark: SparkSession, iris: pd.DataFrame) -> None:
    """Each column once, and once more where it is cast."""
    model = RandomForestClassifier(5, random_state=0).fit(iris[NAMES], iris["target"])
    stage = TensorPipeline(compiled=compile_pipeline(model), errors="raise")
    df = spark.createDataFrame(iris)
    whole = df.withColumn("petal_width", F.col("petal_width").cast("int"))
    for table, more in ((df, 0), (whole, 1)):
        found = stage.transform(table)
        plan = found._jdf.queryExecution().analyzed().toString()
        assert len(re.findall(r"AS c\d+#", plan)) == len(table.columns) + more
    assert stage.transform(df).toPandas()["prediction"].tolist() == model.predict(iris[NAMES]).astype(float).tolist()


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
    with pytest.raises(ColumnError, match="must hold numbers"):
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
        assert {row["why"] for row in collected[2:]} == {
            "NaN or an infinity, which LogisticRegression does not take (column 1)"
        }
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
        (df.withColumn("petal_width", df["kind"]), "'petal_width' must hold numbers, got string"),
        (df.withColumn("prediction", df["target"]), "prediction"),
    ):
        with pytest.raises(ColumnError, match=message):
            by_name.transform(wrong)
    with pytest.raises(ColumnError, match="inputCols must name 4 columns, got 2"):
        by_name.copy().setInputCols(["petal_width", "target"]).transform(df)
    with pytest.raises(InvalidArgumentError, match="compiled must be set"):
        TensorPipeline().transform(df)
    with pytest.raises(TypeError, match=r"compile_pipeline\(model\)"):
        TensorPipeline(compiled=LinearRegression())  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="must differ"):
        TensorPipeline(
            compiled=compile_pipeline(LogisticRegression(max_iter=500).fit(iris[NAMES], iris["kind"])),
            predictionCol="a",
            probabilityCol="a",
        ).transform(df)


def test_lists_of_another_length_fail_the_job(spark: SparkSession) -> None:
    stage = TensorPipeline(compiled=compile_pipeline(LinearRegression().fit([[0.0, 1.0], [1.0, 1.0]], [1.0, 3.0])))
    df = spark.createDataFrame([([1.0],), ([1.0, 2.0],)], "features array<double>").coalesce(1)
    with pytest.raises(Exception, match=r"rows must have 2 features.*got 1 to 2"):
        stage.transform(df).collect()
