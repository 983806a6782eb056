"""Rows for which a stage runs its network, for queries that need some of them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from stages import STAGES

from udfs.driver import map_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from udfs.arrow import BatchFunction, NewColumns

pytestmark = pytest.mark.contract

# Workers do not import test modules.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 24

MODULES = {
    "CNNFeaturizer": "vista_spark.features._base",
    "TensorPipeline": "vista_spark.compiling._stage",
    "TunedModel": "cerebro_spark.tune._model",
    "MLPClassifier": "vista_spark.mlp._stages",
    "TextFeaturizer": "vista_spark.features._base",
    "OcclusionExplainer": "vista_spark.occlusion._stage",
}


@dataclass(frozen=True, slots=True)
class Noted:
    """A function that notes how many rows it computes, in a file per process."""

    function: BatchFunction
    folder: str

    @property
    def batch_size(self) -> int:
        return self.function.batch_size

    @property
    def reads(self) -> tuple[str, ...]:
        return self.function.reads

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        return self.function.adds

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        step = self.function.open(threads)

        def run(batch: pa.RecordBatch) -> NewColumns:
            with (Path(self.folder) / str(os.getpid())).open("ab") as file:
                file.write(b"." * batch.num_rows)
            return step(batch)

        return run


@pytest.mark.parametrize(
    "name",
    [name if name in list(MODULES)[:3] else pytest.param(name, marks=pytest.mark.slow) for name in MODULES],
)
def test_a_stage_computes_the_rows_that_a_query_needs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def noting(df: DataFrame, rows: Any, **options: Any) -> DataFrame:
        return map_rows(df, replace(rows, function=Noted(rows.function, str(tmp_path))), **options)

    def computed(df: DataFrame) -> int:
        for file in tmp_path.iterdir():
            file.unlink()
        df.collect()
        return sum(file.stat().st_size for file in tmp_path.iterdir())

    sample = STAGES[name]
    frame = sample.frame(spark, ROWS).repartition(2).cache()
    stage = sample.make()
    stage = stage.fit(frame) if hasattr(stage, "fit") else stage
    monkeypatch.setattr(import_module(MODULES[name]), "map_rows", noting)
    df = stage.transform(frame)
    result = F.col(sample.feature)
    assert computed(df) == ROWS
    assert computed(df.where(result.isNotNull()).select("id", result)) == ROWS
    if tuple(int(part) for part in spark.version.split(".")[:2]) >= (4, 2):
        assert computed(df.where("id < 6")) == 6
        assert computed(df.where(result.isNotNull()).where("id < 6")) == 6
        assert computed(df.select("id", "label")) == 0
        if name != "TunedModel":  # its probabilities are a second projection, which no limit passes
            # Spark Connect reads both partitions at once.
            assert computed(df.select("id", result).limit(5)) in {5, 10}
