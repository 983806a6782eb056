"""Loads stages that another process saved, runs them and writes what comes out: ``fresh_process.py INPUT PATH=OUTPUT...``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyspark.ml import PipelineModel
from pyspark.ml.util import DefaultParamsReader
from sessions import new_session


def main() -> None:
    spark = new_session()
    df = spark.read.parquet(sys.argv[1])
    for place in sys.argv[2:]:
        path, output = place.split("=")
        load = PipelineModel.load if path.endswith("pipeline") else DefaultParamsReader.loadParamsInstance
        loaded = load(path) if path.endswith("pipeline") else load(path, spark)
        loaded.transform(df).write.parquet(output)
    spark.stop()


if __name__ == "__main__":
    main()
