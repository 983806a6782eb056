"""Tables as users have them: types of columns, values in Python, columns that no step reads, names of columns."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

for LIBRARY in ("lightgbm", "xgboost"):
    pytest.importorskip(LIBRARY)

from hypothesis import given, note, settings
from hypothesis import strategies as st
from lightgbm import LGBMRegressor
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from xgboost import XGBRegressor

from vista_spark import TensorPipeline, compile_pipeline
from vista_spark.errors import CerebroError, ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vista_spark import CompiledPipeline


def _training() -> tuple[pd.DataFrame, Any]:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"rooms": draw.choice([1.0, 2.0, 3.0, np.nan], 200), "floor": draw.integers(0, 4, 200)})
    return table, table["rooms"].fillna(5) * 2 + table["floor"] ** 2


TRAIN, TARGET = _training()
LENIENT = OneHotEncoder(handle_unknown="ignore")

MODELS: dict[str, Any] = {
    "one-hot": make_pipeline(LENIENT, Ridge()),
    "one-hot, strict": make_pipeline(OneHotEncoder(), Ridge()),
    "ordinal": make_pipeline(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-7, encoded_missing_value=-3), Ridge()
    ),
    "target": make_pipeline(TargetEncoder(target_type="continuous", cv=3), Ridge()),
    "mean": make_pipeline(SimpleImputer(), StandardScaler(), Ridge()),
    "most frequent": make_pipeline(SimpleImputer(strategy="most_frequent"), Ridge()),
    "most frequent, one-hot": make_pipeline(SimpleImputer(strategy="most_frequent"), LENIENT, Ridge()),
    "indicator": make_pipeline(make_union(SimpleImputer(), MissingIndicator(features="all")), Ridge()),
    "both": make_pipeline(
        make_column_transformer((LENIENT, ["rooms"]), (SimpleImputer(), ["rooms", "floor"])), Ridge()
    ),
    "histogram": HistGradientBoostingRegressor(max_iter=5),
    "forest": RandomForestRegressor(5, random_state=0),
    "LightGBM": LGBMRegressor(n_estimators=5, verbose=-1),
    "XGBoost": XGBRegressor(n_estimators=5),
}


def _objects(*values: Any) -> pd.Series:
    return pd.Series(list(values), dtype=object)


WHOLE = [1, 2, 3, 9]
COLUMNS: dict[str, pd.Series] = {
    **{kind: pd.Series(WHOLE).astype(kind) for kind in ("int8", "int64", "uint16", "float32", "float64", "Int64")},
    **{f"object of {kind}": pd.Series(WHOLE).astype(kind).astype(object) for kind in ("int64", "float64")},
    "booleans": pd.Series([True, False, True, True]),
    "object of booleans": _objects(True, False, True, True),
    "NaN": pd.Series([1.0, np.nan, 2.0, 9.0]),
    "object of NaN": _objects(1.0, np.nan, 2, 9),
    "None": _objects(1.0, None, 2, 9),
    "None and NaN": _objects(None, np.nan, 2, 9),
    "nullable": pd.Series([1, None, 2, 9], dtype="Int64"),
    "nullable booleans": pd.Series([True, None, False, True], dtype="boolean"),
    "texts of numbers": _objects("1", "2", "3", "9"),
    "numbers and texts": _objects(1, "2", 3.0, "nine"),
    "texts": _objects("a", "b", None, "c"),
    "bytes": _objects(b"1", b"2", b"3", b"9"),
    "decimals": _objects(*map(Decimal, ("1", "2", "0.1", "9"))),
    "scalars": _objects(np.float32(1), np.int8(2), np.float64(3), np.int64(9)),
    "infinity": _objects(1.0, np.inf, 2.0, 9.0),
    "seconds": pd.Series(pd.to_datetime(["2020-01-01"] * 4)).astype("datetime64[s]"),
    "nanoseconds": pd.Series(pd.to_datetime(["2020-01-01"] * 4)).astype("datetime64[ns]"),
    "NaT": pd.Series([pd.NaT] * 4),
    "durations": pd.Series(pd.to_timedelta([1, 2, 3, 9], unit="s")),
    "object of dates": _objects(*[dt.date(2020, 1, 1)] * 4),
    "object of ticks": _objects(*[np.datetime64("2020-01-01")] * 4),
    "complex": pd.Series([1 + 0j, 2, 3, 9]),
    "object of complex": _objects(1 + 0j, 2, 3, 9),
    "lists": _objects([1], [2], [3], [9]),
    "categories of numbers": pd.Series(WHOLE).astype("category"),
}
BOOLEANS = {"booleans", "object of booleans", "nullable booleans"}
FORMS = ("frame", "array", "list", "Arrow")
# Text and null of Arrow mean what the guide says, and libraries see other values after a conversion to pandas.
NOT_ARROW = {"texts", "bytes", "numbers and texts", "texts of numbers", "None and NaN", "categories of numbers", "None"}


def _answers(predict: Any, rows: list[Any]) -> list[Any]:
    answers: list[Any] = []
    for row in rows:
        try:
            answers.append(float(np.ravel(predict(row))[0]))
        except Exception as error:  # whatever the library raises
            answers.append(error)
    return answers


def _rows(table: pd.DataFrame, form: str) -> tuple[list[Any], list[Any]]:
    """Return the rows of a table in a form, and as the library reads them."""
    if form == "frame":
        frames: list[Any] = [table.iloc[place : place + 1] for place in range(len(table))]
        return frames, frames
    if form == "Arrow":
        arrow = pa.Table.from_pandas(table)
        slices = [arrow.slice(place, 1) for place in range(len(table))]
        return slices, [row.to_pandas() for row in slices]
    array = table.to_numpy()
    arrays = [array[place : place + 1] for place in range(len(array))]
    lists = [row.tolist() for row in arrays]
    return (arrays, arrays) if form == "array" else (lists, lists)


def _check(model: Any, compiled: CompiledPipeline, columns: tuple[str, str], form: str) -> None:
    """Compare results row by row: equal, or refused by an error of ours; never an answer where the library has none."""
    table = pd.DataFrame({"rooms": COLUMNS[columns[0]], "floor": COLUMNS[columns[1]]})
    ours, theirs = _rows(table, form)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected, found = _answers(model.predict, theirs), _answers(compiled.predict, ours)
    for answer, right in zip(found, expected, strict=True):
        note(f"{columns} as {form}: {answer!r} for {right!r}")
        if isinstance(answer, Exception):
            assert isinstance(answer, CerebroError)
            continue
        if isinstance(right, TypeError) and "NA is ambiguous" in str(right):
            continue  # pandas.NA beside objects: it is NaN for us, as it is beside numbers
        assert not isinstance(right, Exception)
        np.testing.assert_allclose(answer, right, rtol=1e-5, atol=1e-7)


@pytest.fixture(scope="module")
def fitted() -> dict[str, tuple[Any, CompiledPipeline]]:
    models = {name: clone(model).fit(TRAIN, TARGET) for name, model in MODELS.items()}
    return {name: (model, compile_pipeline(model, threads=1)) for name, model in models.items()}


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(MODELS)),
    st.tuples(st.sampled_from(sorted(COLUMNS)), st.sampled_from(sorted(COLUMNS))),
    st.sampled_from(FORMS),
)
def test_drawn_columns_are_read_as_by_the_library(
    fitted: dict[str, tuple[Any, CompiledPipeline]], name: str, columns: tuple[str, str], form: str
) -> None:
    if form in {"array", "list"} and name == "both":  # columns by name
        form = "frame"
    if form == "list" and set(columns) & NOT_ARROW:  # sklearn refuses lists of nothing but texts
        form = "frame"
    if form == "Arrow" and set(columns) & NOT_ARROW:
        form = "frame"
    if name in {"indicator", "most frequent", "most frequent, one-hot"} and set(columns) <= BOOLEANS:
        return  # the library refuses a table of nothing but booleans, whose numbers are clear
    if name == "LightGBM" and "categories of numbers" in columns:
        return  # the library asks for a categorical if the column was one in training
    try:
        _rows(pd.DataFrame({place: COLUMNS[column] for place, column in enumerate(columns)}), form)
    except (pa.ArrowException, TypeError):  # no column of Arrow
        form = "frame"
    _check(*fitted[name], columns, form)


@pytest.mark.parametrize("column", ["None", "texts of numbers", "numbers and texts", "bytes", "decimals", "scalars"])
@pytest.mark.parametrize("name", ["one-hot", "ordinal", "target", "most frequent, one-hot"])
def test_encoders_of_numbers_answer_for_values_of_other_types(
    fitted: dict[str, tuple[Any, CompiledPipeline]], name: str, column: str
) -> None:
    model, compiled = fitted[name]
    table = pd.DataFrame({"rooms": COLUMNS[column], "floor": [0, 1, 2, 3]})
    np.testing.assert_allclose(compiled.predict(table), model.predict(table), rtol=1e-9)


@pytest.mark.parametrize("column", ["seconds", "nanoseconds", "NaT", "durations", "complex", "lists"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_types_that_are_no_numbers_are_refused_by_name(
    fitted: dict[str, tuple[Any, CompiledPipeline]], name: str, column: str
) -> None:
    table = pd.DataFrame({"rooms": COLUMNS[column], "floor": [0, 1, 2, 3]})
    with pytest.raises(ColumnError, match="'rooms'"):
        fitted[name][1].predict(table)


def test_missing_nullable_numbers_are_read() -> None:
    model = make_pipeline(SimpleImputer(), Ridge()).fit(TRAIN, TARGET)
    table = pd.DataFrame(
        {"rooms": pd.Series([1, None], dtype="Int64"), "floor": pd.Series([None, True], dtype="boolean")}
    )
    np.testing.assert_allclose(compile_pipeline(model).predict(table), model.predict(table))


def test_boosters_take_columns_by_their_dtype() -> None:
    table = pd.DataFrame({"rooms": _objects(1.0, 2.0), "floor": [0, 1]})
    for model in (LGBMRegressor(n_estimators=2, verbose=-1), XGBRegressor(n_estimators=2)):
        compiled = compile_pipeline(model.fit(TRAIN, TARGET))
        with pytest.raises(ColumnError, match=r"column 'rooms' must have a dtype of numbers for .*, got object"):
            compiled.predict(table)
        with pytest.raises(ColumnError, match="'rooms'"):
            compiled.predict(pa.table({"rooms": pa.array([1, 2]).dictionary_encode(), "floor": [0, 1]}))
        compiled.predict(table.astype(float))


@pytest.fixture(scope="module")
def churn() -> tuple[pd.DataFrame, Any]:
    """Return a table with columns that no step reads, and a model that was fitted on all of it."""
    draw = np.random.default_rng(1)
    table = pd.DataFrame({"id": range(100), "age": draw.normal(40, 9, 100), "plan": draw.choice(["free", "pro"], 100)})
    table = table.assign(churned=draw.random(100) < 0.4, notes=[["any"]] * 100)
    chosen = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["plan"]), ("drop", ["id"]))
    return table, make_pipeline(chosen, LogisticRegression()).fit(table, table["churned"])


def test_columns_that_no_step_reads_need_not_be_there(churn: tuple[pd.DataFrame, Any]) -> None:
    table, model = churn
    compiled = compile_pipeline(model)
    for read in (table[["age", "plan"]], table[["plan", "id", "age"]], table.drop(columns="notes")):
        np.testing.assert_allclose(compiled.predict_proba(read), model.predict_proba(read))
    np.testing.assert_allclose(
        compiled.predict_proba(pa.Table.from_pandas(table[["plan", "age"]])), model.predict_proba(table)
    )
    for absent in ("age", "plan"):
        with pytest.raises(ColumnError, match=rf"none of \['{absent}'\]"):
            compiled.predict(table.drop(columns=absent))


def test_columns_that_rewrites_leave_out_must_be_there() -> None:
    model = make_pipeline(StandardScaler(), HistGradientBoostingRegressor(max_iter=2)).fit(
        TRAIN.assign(constant=1.0), TARGET
    )
    with pytest.raises(ColumnError, match="constant"):  # the library asks for it, too
        compile_pipeline(model).predict(TRAIN)


def test_a_dataframe_of_spark_needs_only_the_columns_that_are_read(
    spark: SparkSession, churn: tuple[pd.DataFrame, Any]
) -> None:
    table, model = churn
    stage = TensorPipeline(compiled=compile_pipeline(model), probabilityCol="")
    found = stage.transform(spark.createDataFrame(table[["plan", "age"]])).toPandas()
    assert found["prediction"].tolist() == model.predict(table).tolist()
    with pytest.raises(ColumnError, match="age"):
        stage.transform(spark.createDataFrame(table[["plan", "id"]]))


def test_columns_of_spark_match_without_regard_to_case(spark: SparkSession, churn: tuple[pd.DataFrame, Any]) -> None:
    table, model = churn
    compiled = compile_pipeline(model)
    df = spark.createDataFrame(table[["plan", "age"]].rename(columns={"plan": "PLAN", "age": "Age"}))
    found = TensorPipeline(compiled=compiled, probabilityCol="").transform(df)
    assert found.columns == ["PLAN", "Age", "prediction"]
    assert [row["prediction"] for row in found.collect()] == model.predict(table).tolist()
    with pytest.raises(ColumnError, match="'Prediction' exists"):
        TensorPipeline(compiled=compiled).transform(df.withColumnRenamed("Age", "age").selectExpr("*", "1 Prediction"))
    with pytest.raises(ColumnError, match="must be there once, got Age, age"):
        TensorPipeline(compiled=compiled).transform(df.selectExpr("*", "1.0 age"))
    vectors = compile_pipeline(Ridge().fit(TRAIN.fillna(0).to_numpy(), TARGET))
    stage = TensorPipeline(compiled=vectors, featuresCol="FEATURES")
    assert stage.transform(spark.createDataFrame([([1.0, 2.0],)], ["features"])).count() == 1
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(ColumnError, match="'age'"):
            TensorPipeline(compiled=compiled).transform(df)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_rows_of_spark_are_read_as_by_the_library(
    spark: SparkSession, fitted: dict[str, tuple[Any, CompiledPipeline]]
) -> None:
    rows = [(1.0, 0), (None, 1), (float("nan"), 2), (9.0, 3)]
    for kinds in ("rooms double, floor int", "rooms float, floor tinyint", "rooms double, floor long"):
        df = spark.createDataFrame(rows, kinds)
        frame = df.toPandas()
        for name in ("one-hot", "ordinal", "mean", "most frequent, one-hot", "histogram", "XGBoost"):
            model, compiled = fitted[name]
            found = TensorPipeline(compiled=compiled).transform(df).toPandas()["prediction"]
            np.testing.assert_allclose(found, model.predict(frame), rtol=1e-5)
    for kinds in ("rooms string, floor int", "rooms timestamp, floor int", "rooms date, floor int"):
        df = spark.createDataFrame([], kinds)
        for name in ("one-hot", "mean", "XGBoost"):
            with pytest.raises(ColumnError, match="'rooms'"):
                TensorPipeline(compiled=fitted[name][1]).transform(df)


def test_a_dictionary_of_arrow_may_hold_a_value_twice() -> None:
    table = pd.DataFrame({"plan": ["a", "b", "c"] * 20})
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(table, table["plan"] == "b")
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int8()), pa.array(["a", "b", "a", "c"]))
    chunks = pa.chunked_array([twice.slice(0, 2), twice.slice(2)])
    expected = model.predict_proba(pd.DataFrame({"plan": list("abac")}))
    for column in (twice, chunks):
        np.testing.assert_allclose(compile_pipeline(model).predict_proba(pa.table({"plan": column})), expected)
    numbers = make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()).fit(TRAIN[["floor"]], TARGET)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array([3, 0, 3]))
    np.testing.assert_allclose(
        compile_pipeline(numbers).predict(pa.table({"floor": coded})),
        numbers.predict(pd.DataFrame({"floor": [3, 0, 3]})),
    )


def test_texts_that_are_no_numbers_are_named_with_their_column() -> None:
    compiled = compile_pipeline(make_pipeline(SimpleImputer(), Ridge()).fit(TRAIN, TARGET))
    with pytest.raises(ColumnError, match=r"column 'floor' must hold numbers, got 'n/a'"):
        compiled.predict(pd.DataFrame({"rooms": [1.0, 2.0], "floor": _objects(3, "n/a")}))
    with pytest.raises(InvalidArgumentError, match=r"column 'floor' must hold integers up to"):
        compiled.predict(pd.DataFrame({"rooms": _objects(1.0), "floor": [2**60]}))


@pytest.mark.parametrize("function", [np.sqrt, np.square, np.log1p, np.negative, np.isnan])
@pytest.mark.parametrize("validate", [False, True])
def test_functions_of_numpy_compute_in_the_type_of_the_column(function: Any, *, validate: bool) -> None:
    """Roots of int8 are float16 in numpy, and squares wrap around."""
    whole = pd.DataFrame(np.random.default_rng(0).integers(0, 15, (100, 3)), columns=list("abc"))
    steps = FunctionTransformer(function, validate=validate), Ridge()
    model, of_arrays = (
        make_pipeline(*map(clone, steps)).fit(rows, whole.sum(axis=1)) for rows in (whole, whole.to_numpy())
    )
    compiled = compile_pipeline(model)
    tables = [whole.astype(kind) for kind in ("int8", "uint8", "int16", "float16", "float32", "int64")]
    for table in (*tables, whole.astype({"a": "int8", "b": "int16", "c": "float64"})):
        np.testing.assert_allclose(compiled.predict(table), model.predict(table), rtol=1e-6)
        array = table.to_numpy()
        np.testing.assert_allclose(compile_pipeline(of_arrays).predict(array), of_arrays.predict(array), rtol=1e-6)
    np.testing.assert_allclose(compiled.predict(pa.Table.from_pandas(tables[0])), model.predict(tables[0]), rtol=1e-6)


def test_scalers_of_float16_are_refused() -> None:
    """They compute with 16 bits in scikit-learn."""
    table = TRAIN[["floor"]].to_numpy()
    rooted = make_pipeline(FunctionTransformer(np.sqrt), StandardScaler(), Ridge()).fit(table, TARGET)
    for model, narrow in ((make_pipeline(StandardScaler(), Ridge()), "float16"), (rooted, "int8")):
        compiled = compile_pipeline(model.fit(table, TARGET))
        with pytest.raises(ColumnError, match=r"X must be float32 or float64 for scalers"):
            compiled.predict(table.astype(narrow))
    forest = RandomForestRegressor(3, random_state=0).fit(table, TARGET)
    half = table.astype(np.float16)
    np.testing.assert_allclose(compile_pipeline(forest).predict(half), forest.predict(half))


def test_functions_of_numpy_take_columns_by_their_dtype() -> None:
    model = make_pipeline(FunctionTransformer(np.sqrt), Ridge()).fit(TRAIN[["floor"]], TARGET)
    with pytest.raises(ColumnError, match=r"column 'floor' must have a dtype of numbers for np.sqrt"):
        compile_pipeline(model).predict(pd.DataFrame({"floor": _objects(4, 9)}))


REFUSING: dict[str, tuple[Any, dict[str, Any], str]] = {
    "infinity": (make_pipeline(SimpleImputer(), Ridge()), {"floor": np.inf}, r"an infinity.*\(column 'floor'\)"),
    "NaN": (make_pipeline(StandardScaler(), Ridge()), {"rooms": np.nan}, r"NaN or an infinity.*\(column 'rooms'\)"),
    "several": (Ridge(), {"rooms": np.nan, "floor": -np.inf}, r"\(columns 'rooms', 'floor'\)"),
    "category": (make_pipeline(OneHotEncoder(), Ridge()), {"floor": 77.0}, r"does not know \(column 'floor'\)"),
    "behind trees": (RandomForestRegressor(3), {"floor": np.inf}, r"\(column 'floor'\)"),
}


@pytest.mark.parametrize("name", sorted(REFUSING))
def test_refused_rows_name_their_columns(name: str) -> None:
    model, wrong, message = REFUSING[name]
    table = TRAIN.fillna(5.0).astype(float)
    compiled = compile_pipeline(clone(model).fit(table, TARGET))
    rows = table.head(100).copy()
    rows.loc[40, list(wrong)] = list(wrong.values())
    for asked in (rows, rows.loc[40:40]):  # in chunks, and as calls
        with pytest.raises(InvalidArgumentError, match=message):
            compiled.predict(asked)


def test_refused_rows_of_spark_name_their_columns(spark: SparkSession) -> None:
    table = pd.DataFrame({"plan": ["a", "b"] * 20, "age": np.arange(40.0), "debt": 1.0})
    chosen = make_column_transformer((OneHotEncoder(), ["plan"]), (SimpleImputer(), ["age", "debt"]))
    compiled = compile_pipeline(make_pipeline(chosen, Ridge()).fit(table, table["age"]))
    rows = table.head(6).copy()
    rows.loc[1, "age"], rows.loc[2, "plan"], rows.loc[4, "debt"] = np.inf, "c", np.inf
    df = spark.createDataFrame(rows).coalesce(1)
    reasons = [row["why"] for row in TensorPipeline(compiled=compiled, errorCol="why").transform(df).collect()]
    infinity = "an infinity, which SimpleImputer does not take (column '{}')"
    category = "a category that OneHotEncoder does not know (column 'plan')"
    assert reasons == [None, infinity.format("age"), category, None, infinity.format("debt"), None]
    with pytest.raises(Exception, match=r"row 1 of partition 0, column 'age'"):
        TensorPipeline(compiled=compiled, errors="raise").transform(df).collect()
