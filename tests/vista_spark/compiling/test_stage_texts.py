"""``TensorPipeline`` on columns of texts, booleans and whole numbers beside numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from vista_spark import TensorPipeline, compile_pipeline
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "city string, fare double, class int, alone boolean, said string, note string"


def test_texts_and_numbers_in_one_pipeline(spark: SparkSession) -> None:
    random = np.random.default_rng(0)
    cities = np.array(["Oslo", "", "Malm\u00f6", "Malmo\u0308", "\U0001f642", "x" * 300, None], object)
    table = pd.DataFrame(
        {
            "city": random.choice(cities, 200),
            "fare": random.normal(size=200),
            "class": random.integers(1, 4, 200),
            "alone": random.random(200) < 0.5,
            "said": random.choice(["", "good old boat", "Good na\u00efve", "bad bad boat"], 200),
            "note": "never read",
        }
    )
    texts = make_pipeline(
        SimpleImputer(missing_values=None, strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    features = ColumnTransformer(
        [
            ("city", texts, ["city"]),
            ("class", OrdinalEncoder(), ["class", "alone"]),
            ("fare", StandardScaler(), ["fare"]),
            ("said", TfidfVectorizer(ngram_range=(1, 2)), "said"),
        ]
    )
    model = make_pipeline(features, LogisticRegression()).fit(table, np.where(table["fare"] > 0, "up", "down"))
    table.loc[:4, "city"] = ["x" * 301, "Malmo", "oslo", None, ""]
    stage = TensorPipeline(compiled=compile_pipeline(model), batchSize=64, errorCol="why")
    df = spark.createDataFrame(list(table.itertuples(index=False)), COLUMNS)
    found = stage.transform(df).toPandas()
    assert found["prediction"].tolist() == model.predict(table).tolist()
    np.testing.assert_allclose(
        np.stack(found["probability"].map(lambda v: v.toArray())), model.predict_proba(table), rtol=1e-9
    )
    row = df.limit(1).selectExpr("city", "fare", "9 AS class", "alone", "said", "note")
    assert stage.transform(row).first()["why"] == "a category that OrdinalEncoder does not know (column 'class')"  # type: ignore[index]
    with pytest.raises(ColumnError, match="'city' must hold str, as in training, got int"):
        stage.transform(df.selectExpr("1 AS city", "fare", "class", "alone", "said", "note"))
    with pytest.raises(ColumnError, match="'class' must hold numbers, got string"):
        stage.transform(df.selectExpr("city", "fare", "'1' AS class", "alone", "said", "note"))
    with pytest.raises(ColumnError, match="inputCols must be set"):
        TensorPipeline(compiled=compile_pipeline(model), featuresCol="fare").transform(df)
