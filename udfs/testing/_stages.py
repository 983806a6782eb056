"""The contract of a Spark ML stage, as tests: parameters, copies, rows, persistence, pipelines, tuning.

A project of its own subclasses :class:`StageContract` in a test module, and pytest collects the rest::

    class TestMyStage(StageContract):
        stages = (StageSample("MyStage", make=..., frame=..., reads="text", ...),)

The project has a fixture ``spark`` of module or session scope. Where that is a session of Spark Connect, the stage is
held to the contract there.
"""

# ruff: noqa: SLF001  (a test suite that ships with the package: a test is named after what it holds)

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.functions import array_to_vector
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from udfs.testing._new_process import transform_in_new_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from udfs.testing._stage_sample import StageSample

__all__ = ["StageContract"]


class StageContract:
    """The contract of a stage. Subclass it with ``stages``; a method is a test.

    Attributes
    ----------
    stages : sequence of StageSample
        Each is held to the whole contract.
    preparation : str
        Python that a new process runs before it loads a saved stage, such as an import that registers a model. Unless
        it opens a Spark session of its own choice, the process takes Spark's default.
    """

    stages: ClassVar[Sequence[StageSample]]
    preparation: ClassVar[str] = ""

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run each test for each stage (called by pytest)."""
        if "stage" in metafunc.fixturenames:
            metafunc.parametrize("stage", self.stages, ids=[stage.name for stage in self.stages], scope="class")

    @pytest.fixture(scope="class")
    @classmethod
    def fitted_once(cls, stage: StageSample, spark: SparkSession) -> Any:
        """Fit an estimator once for all tests of its stage; a transformer is ready as it is."""
        made = stage.make()
        return made.fit(stage.frame(spark, 24)) if hasattr(made, "fit") else made

    @pytest.fixture
    def ready(self, fitted_once: Any) -> Any:
        """Copy what transforms: the stage itself, or the model that it fits."""
        return fitted_once.copy()

    @pytest.fixture
    def estimator(self, stage: StageSample) -> Any:
        """Make the estimator; its tests are skipped for a transformer."""
        made = stage.make()
        if not hasattr(made, "fit"):
            pytest.skip("a transformer has nothing to fit")
        return made

    # ---- Params

    def test_defaults(self, stage: StageSample) -> None:
        fresh = stage.fresh()
        assert {p.name: fresh.getOrDefault(p) for p in fresh.params if fresh.hasDefault(p)} == stage.defaults
        assert not [p.name for p in fresh.params if fresh.isSet(p)]

    def test_every_param_has_a_getter_and_a_setter(self, stage: StageSample) -> None:
        fresh = stage.fresh()
        assert {p.name for p in fresh.params} == stage.values.keys(), "the sample's values miss a Param"
        for name, value in stage.values.items():
            assert stage.defaults.get(name) != value
            told = _tell(stage, fresh, name, value)
            if name not in stage.own_params:
                assert told is fresh
                assert getattr(fresh, f"get{name[0].upper()}{name[1:]}")() == value
            assert fresh.getOrDefault(name) == value

    def test_constructor_and_set_params_take_every_param(self, stage: StageSample) -> None:
        if not stage.built:
            pytest.skip("users do not build it")
        kind = type(stage.make())
        built, told = kind(**stage.values), kind()
        assert told.setParams(**stage.values) is told
        for name, value in stage.values.items():
            assert built.getOrDefault(name) == told.getOrDefault(name) == value
        with pytest.raises(TypeError, match="keyword"):
            kind("positional")

    def test_bad_values_are_refused_when_they_are_set(self, stage: StageSample) -> None:
        kind = type(stage.make())
        for name, (value, message) in stage.refused.items():
            if stage.built:
                with pytest.raises(TypeError, match=message):
                    kind(**{name: value})
            fresh = stage.fresh()._set(**{name: stage.values[name]})
            with pytest.raises(TypeError, match=message):
                _tell(stage, fresh, name, value)
            assert fresh.getOrDefault(name) == stage.values[name], "a refused value changed the stage"

    def test_params_explain_themselves(self, stage: StageSample) -> None:
        made = stage.make()
        text = made.explainParams()
        for param in made.params:
            assert param.doc
            assert f"{param.name}: {param.doc}" in text

    @pytest.mark.parametrize("fitted", [False, True], ids=["stage", "model"])
    def test_copy_is_independent(self, stage: StageSample, ready: Any, fitted: bool) -> None:
        made = ready if fitted else stage.make()
        name, value = next(
            (n, v)
            for n, v in stage.values.items()
            if made.hasParam(n) and made.isDefined(n) and made.getOrDefault(n) != v
        )
        before = made.getOrDefault(name)
        twin = made.copy({made.getParam(name): value})
        assert type(twin) is type(made)
        assert twin.uid == made.uid
        assert (twin.getOrDefault(name), made.getOrDefault(name)) == (value, before)
        made._set(**{name: value})
        assert made.copy().getOrDefault(name) == value
        assert {p.name for p in made.copy().params if made.copy().isSet(p)} == {
            p.name for p in made.params if made.isSet(p)
        }

    # ---- transform

    def test_columns_are_added_at_the_end(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        df = stage.frame(spark, 4)
        out = ready.transform(df)
        assert out.columns == [*df.columns, *stage.adds]
        rows = _collected(out)
        assert [row["id"] for row in rows] == [0, 1, 2, 3]
        assert len({np.asarray(row[stage.feature]).tobytes() for row in rows}) == 4

    def test_params_of_a_call_win(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        if stage.reads_param is None:
            pytest.skip("it reads the columns that it has learned")
        df = stage.frame(spark, 1).withColumnRenamed(stage.reads, "elsewhere")
        out = ready.transform(df, {ready.getParam(stage.reads_param): "elsewhere"})
        assert out.columns == [*df.columns, *stage.adds]
        assert ready.getOrDefault(stage.reads_param) != "elsewhere"

    def test_other_columns_pass_through_untouched(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        indexed = stage.frame(spark, 3).withColumn("kind", F.concat(F.lit("k"), F.col("id")))
        df = (
            StringIndexer(inputCol="kind", outputCol="indexed")
            .fit(indexed)
            .transform(indexed)
            .withColumns(
                {
                    "a vector": array_to_vector(F.array(F.col("id").cast("double"), F.lit(0.5))),
                    "a struct": F.struct(F.col("id").alias("x.y"), F.lit("z").alias("z")),
                    "dotted.string": F.concat(F.lit("n°"), F.col("id").cast("string")),
                    "back`tick": F.lit(b"\x00\xff"),
                    "price": F.lit(Decimal("12.340")).cast(DecimalType(10, 3)),
                    "when": F.lit(dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=dt.UTC)),
                    "day": F.lit(dt.date(1969, 7, 20)),
                    "span": F.lit(dt.timedelta(days=1, seconds=2)),
                    "map": F.create_map(F.lit("k"), F.array(F.col("id"), F.lit(None))),
                    "nothing": F.lit(None).cast("string"),
                    "c0": F.lit("a name of our own"),
                }
            )
            .withColumn("wall clock", F.col("when").cast("timestamp_ntz"))
        )
        # What is read is neither the first nor the last of the columns.
        front = ["wall clock", "a vector", stage.reads]
        df = df.select(*front, *(f"`{name.replace('`', '``')}`" for name in df.columns if name not in front))
        out = ready.transform(df)
        assert out.columns == [*df.columns, *stage.adds]
        for name in df.columns:
            assert out.schema[name] == df.schema[name]
            assert out.schema[name].metadata == df.schema[name].metadata
        assert df.schema["indexed"].metadata
        kept = [{name: row[name] for name in df.columns} for row in _collected(out)]
        for before, other in zip(kept, _collected(df), strict=True):
            for name in [name for name, value in other.items() if isinstance(value, np.ndarray)]:
                np.testing.assert_array_equal(before.pop(name), other.pop(name))
            assert before == other

    def test_output_columns_may_have_any_name(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        df = stage.frame(spark, 2)
        out = ready.copy({ready.getParam(name): value for name, value in stage.renamed.items()}).transform(df)
        names = [name for value in stage.renamed.values() for name in ([value] if isinstance(value, str) else value)]
        assert out.columns[len(df.columns) :][: len(names)] == names
        assert all(row[name] is not None for row in out.collect() for name in names)

    def test_an_empty_data_frame(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        df = stage.frame(spark, 1)
        empty = df.where("id < 0")
        out = ready.transform(empty)
        assert out.schema == ready.transform(df).schema
        assert out.collect() == []
        assert ready.transform(spark.createDataFrame([], df.schema)).count() == 0

    def test_empty_partitions(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        df = stage.frame(spark, 3)
        scattered = df.repartition(7)
        _assert_same(ready.transform(scattered), ready.transform(df.coalesce(1)))

    def test_nulls(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        df = stage.frame(spark, 5)
        column = F.when(F.col("id") % 2 == 0, F.col(stage.reads))
        out = {row["id"]: row for row in _collected(ready.transform(df.withColumn(stage.reads, column)))}
        whole = {row["id"]: row for row in _collected(ready.transform(df))}
        assert [out[number][stage.feature] is None for number in range(5)] == [False, True, False, True, False]
        for number in (0, 2, 4):
            np.testing.assert_allclose(out[number][stage.feature], whole[number][stage.feature], atol=1e-5)
        nothing = ready.transform(df.withColumn(stage.reads, F.lit(None).cast(df.schema[stage.reads].dataType)))
        assert [row[stage.feature] for row in nothing.collect()] == [None] * 5

    def test_a_missing_column_is_named(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        df = stage.frame(spark, 1).withColumnRenamed(stage.reads, f"{stage.reads}s")
        with pytest.raises(ValueError, match=rf"'{stage.reads}'.*did you mean '{stage.reads}s'"):
            ready.transform(df)

    def test_a_column_in_the_way_is_named(self, stage: StageSample, ready: Any, spark: SparkSession) -> None:
        for name in stage.adds:
            with pytest.raises(ValueError, match=f"'{name}' exists already"):
                ready.transform(stage.frame(spark, 1).withColumn(name, F.lit(1)))

    # ---- persistence, pipelines, tuning

    def test_save_and_load(self, stage: StageSample, tmp_path: Path) -> None:
        _skip_unless_saved(stage)
        made, path = stage.make(), str(tmp_path / "stage")
        made.save(path)
        loaded = type(made).load(path)
        assert loaded.uid == made.uid
        assert {p.name: v for p, v in loaded.extractParamMap().items()} == {
            p.name: v for p, v in made.extractParamMap().items()
        }
        assert {p.name for p in loaded.params if loaded.isSet(p)} == {p.name for p in made.params if made.isSet(p)}
        for name, value in stage.values.items():
            made._set(**{name: value})
        made.save(str(tmp_path / "other"))
        loaded = type(made).load(str(tmp_path / "other"))
        assert {name: loaded.getOrDefault(name) for name in stage.values} == stage.values

    @pytest.mark.parametrize("fitted", [False, True], ids=["stage", "model"])
    def test_overwrite(self, stage: StageSample, ready: Any, spark: SparkSession, tmp_path: Path, fitted: bool) -> None:
        if _connected(spark):
            pytest.skip("pyspark's own overwrite() of a Python stage needs a JVM session")
        if not fitted:
            _skip_unless_saved(stage)
        path = str(tmp_path / "stage")
        made = ready if fitted else stage.make()
        made.save(path)
        name, value = next((n, v) for n, v in stage.values.items() if made.hasParam(n) and n in stage.defaults)
        made._set(**{name: value}).write().overwrite().save(path)
        assert type(made).load(path).getOrDefault(name) == value

    def test_a_fresh_process_gives_the_same(
        self, stage: StageSample, ready: Any, spark: SparkSession, tmp_path: Path
    ) -> None:
        df = stage.frame(spark, 6)
        df.write.parquet(str(tmp_path / "input"))
        ready.save(str(tmp_path / "stage"))
        model = Pipeline(stages=_classifier(stage)).fit(df)
        model.save(str(tmp_path / "pipeline"))
        outputs = {tmp_path / name: tmp_path / f"{name}-out" for name in ("stage", "pipeline")}
        transform_in_new_process(tmp_path / "input", outputs, self.preparation)
        _assert_same(spark.read.parquet(str(tmp_path / "stage-out")), ready.transform(df))
        _assert_same(spark.read.parquet(str(tmp_path / "pipeline-out")), model.transform(df))

    def test_pipeline(self, stage: StageSample, spark: SparkSession, tmp_path: Path) -> None:
        df = stage.frame(spark, 8)
        model = Pipeline(stages=_classifier(stage)).fit(df)
        rows = _collected(model.transform(df))
        assert len(rows) == 8
        assert np.mean([row["prediction"] == row["label"] for row in rows]) > 0.6
        model.save(str(tmp_path / "model"))
        _assert_same(PipelineModel.load(str(tmp_path / "model")).transform(df), model.transform(df))

    def test_an_unfitted_pipeline_saves_and_loads(self, stage: StageSample, tmp_path: Path) -> None:
        _skip_unless_saved(stage)
        path = str(tmp_path / "pipeline")
        pipeline = Pipeline(stages=_classifier(stage))
        pipeline.save(path)
        loaded = Pipeline.load(path).getStages()
        assert [part.uid for part in loaded] == [part.uid for part in pipeline.getStages()]
        assert type(loaded[0]) is type(stage.make())

    def test_cross_validator(self, stage: StageSample, spark: SparkSession) -> None:
        if stage.tuned is None:
            pytest.skip("none of its Params makes other features")
        df = stage.frame(spark, 12).withColumn("fold", (F.col("id") / 2).cast("int") % 2)
        stages = _classifier(stage)
        name, choices = stage.tuned
        grid = ParamGridBuilder().addGrid(stages[0].getParam(name), choices).build()
        # Spark has this metric; its type hints lack it.
        evaluator = MulticlassClassificationEvaluator(metricName="logLoss")  # type: ignore[arg-type]
        search = CrossValidator(
            estimator=Pipeline(stages=stages),
            estimatorParamMaps=grid,
            evaluator=evaluator,
            numFolds=2,
            foldCol="fold",
        )
        model = search.fit(df)
        assert len(set(model.avgMetrics)) == len(choices), "the stage's Param did not reach it"
        best = choices[int(np.argmin(model.avgMetrics))]
        fitted: Any = model.bestModel
        first = fitted.stages[0]
        # What an estimator has fitted has no longer the Params of the fitting.
        assert not first.hasParam(name) or first.getOrDefault(name) == best
        assert len(_collected(model.transform(df))) == 12

    # ---- estimators

    def test_a_model_has_its_estimators_params(self, stage: StageSample, estimator: Any, ready: Any) -> None:
        shared = [param.name for param in ready.params if estimator.hasParam(param.name)]
        assert {*stage.renamed, *([stage.reads_param] if stage.reads_param else [])} <= set(shared)
        if stage.label is not None:
            assert "labelCol" in shared
        for name in shared:
            assert ready.isDefined(name) == estimator.isDefined(name)
            if ready.isDefined(name):
                assert ready.getOrDefault(name) == estimator.getOrDefault(name)
            upper = name[0].upper() + name[1:]
            assert getattr(ready, f"set{upper}")(stage.values[name]) is ready
            assert getattr(ready, f"get{upper}")() == stage.values[name]

    def test_params_of_a_fit_win(self, stage: StageSample, estimator: Any, spark: SparkSession) -> None:
        assert stage.tuned is not None
        name, choices = stage.tuned
        df = stage.frame(spark, 8)
        maps = [{estimator.getParam(name): value} for value in choices]
        models = estimator.fit(df, maps)
        assert len(models) == len(choices)
        first, other = (_collected(model.transform(df)) for model in models)
        assert not np.array_equal(first[0][stage.feature], other[0][stage.feature])
        assert estimator.getOrDefault(name) == stage.make().getOrDefault(name)

    @pytest.mark.usefixtures("estimator")
    def test_a_model_saves_and_loads(self, stage: StageSample, ready: Any, spark: SparkSession, tmp_path: Path) -> None:
        path = str(tmp_path / "model")
        ready._set(**{name: value for name, value in stage.renamed.items() if isinstance(value, str)}).save(path)
        loaded = type(ready).load(path)
        assert (type(loaded), loaded.uid) == (type(ready), ready.uid)
        assert {p.name: v for p, v in loaded.extractParamMap().items()} == {
            p.name: v for p, v in ready.extractParamMap().items()
        }
        df = stage.frame(spark, 6)
        _assert_same(loaded.transform(df), ready.transform(df))
        with pytest.raises(Exception, match=r"(?i)exists"):
            ready.save(path)
        assert not [file for file in tmp_path.rglob("*") if file.suffix in {".pkl", ".pickle", ".pt"}]

    def test_fit_on_no_rows(self, stage: StageSample, estimator: Any, spark: SparkSession) -> None:
        df = stage.frame(spark, 2)
        for empty in (df.where("id < 0"), spark.createDataFrame([], df.schema)):
            with pytest.raises(ValueError, match=r"\brows\b"):
                estimator.fit(empty)

    def test_fit_names_a_missing_column(self, stage: StageSample, estimator: Any, spark: SparkSession) -> None:
        for column in [stage.reads] if stage.label is None else [stage.reads, stage.label]:
            df = stage.frame(spark, 2).withColumnRenamed(column, f"{column}s")
            with pytest.raises(ValueError, match=rf"'{column}'.*did you mean '{column}s'"):
                estimator.fit(df)

    @pytest.mark.parametrize("column", ["reads", "label"])
    def test_fit_refuses_nulls(self, stage: StageSample, estimator: Any, spark: SparkSession, column: str) -> None:
        if stage.label is None:
            pytest.skip("it looks at a sample, and leaves out what cannot be read")
        name = stage.reads if column == "reads" else stage.label
        df = stage.frame(spark, 5).withColumn(name, F.when(F.col("id") % 2 == 0, F.col(name)))
        with pytest.raises(ValueError, match=rf"'{name}' is null.* 2 of 5 rows"):
            estimator.fit(df)


def _collected(df: DataFrame) -> list[dict[str, Any]]:
    """Return the rows in the order of their ids, vectors as arrays, structs without the time they took."""
    rows = sorted((row.asDict(recursive=True) for row in df.collect()), key=lambda row: row["id"])
    for row in rows:
        for name, value in row.items():
            if isinstance(value, dict):
                value.pop("seconds", None)
            row[name] = value.toArray() if hasattr(value, "toArray") else value
    return rows


def _assert_same(actual: DataFrame, expected: DataFrame) -> None:
    assert actual.columns == expected.columns
    ours, theirs = _collected(actual), _collected(expected)
    assert len(ours) == len(theirs) > 0
    for first, other in zip(ours, theirs, strict=True):
        for name, value in other.items():
            _assert_alike(first[name], value, name)


def _assert_alike(value: Any, expected: Any, path: str) -> None:
    """Compare numbers within rounding, in structs and arrays too."""
    if isinstance(expected, dict):
        assert value.keys() == expected.keys(), path
        for name, inner in expected.items():
            _assert_alike(value[name], inner, f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(value) == len(expected), path
        for place, (inner, other) in enumerate(zip(value, expected, strict=True)):
            _assert_alike(inner, other, f"{path}[{place}]")
    elif isinstance(expected, (np.ndarray, float)):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5, err_msg=path)
    else:
        assert value == expected, path


def _classifier(stage: StageSample) -> list[Any]:
    return [
        stage.make(),
        VectorAssembler(inputCols=[stage.feature], outputCol="features"),
        LogisticRegression(maxIter=2),
    ]


def _tell(stage: StageSample, made: Any, name: str, value: Any) -> Any:
    """Set a Param by its setter, where it has one."""
    if name in stage.own_params:
        return made.set(made.getParam(name), value)
    return getattr(made, f"set{name[0].upper()}{name[1:]}")(value)


def _skip_unless_saved(stage: StageSample) -> None:
    if not stage.saves:
        pytest.skip("it is not saved before it is fitted")


def _connected(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
