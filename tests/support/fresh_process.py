"""Loads what another process saved, runs it and writes what comes out: ``fresh_process.py INPUT PATH=OUTPUT...``."""

from __future__ import annotations

import sys

from places import ROOT

sys.path.insert(0, str(ROOT))

from pyspark.ml import PipelineModel
from pyspark.ml.util import DefaultParamsReader
from sessions import new_session
from texts import TOKENIZERS, tiny_bert


def main() -> None:
    if TOKENIZERS:
        tiny_bert()  # what one process registered another does not know
    spark = new_session()
    df = spark.read.parquet(sys.argv[1])
    for place in sys.argv[2:]:
        path, output = place.split("=")
        pipeline = path.endswith("pipeline")
        loaded = PipelineModel.load(path) if pipeline else DefaultParamsReader.loadParamsInstance(path, spark)
        loaded.transform(df).write.parquet(output)
    spark.stop()


if __name__ == "__main__":
    main()
