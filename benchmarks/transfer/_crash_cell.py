"""One cell of the crash matrix: a feature transfer in a session of its own, started under a limit."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.ml.classification import LogisticRegression, RandomForestClassifier
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F

from benchmarks.harness.photographs import jpegs
from optimizer.memory import SPARK4, ClusterSpec, InfeasiblePlanError
from vista_spark import FeatureTransfer, plan_feature_transfer, session
from vista_spark.transfer._planning import named_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of a machine, by habit: most of it for the JVM.
_HABIT = 3 / 4

_DOWNSTREAM: dict[str, Any] = {"forest": RandomForestClassifier, "logistic": LogisticRegression}


def main(wanted: dict[str, Any]) -> None:
    """Run the transfer; print the prediction first and the outcome last."""
    files = jpegs(wanted["images"])
    said: dict[str, Any] = {}
    batch_size = 32
    estimator = _DOWNSTREAM[wanted["downstream"]]
    answer = Path(wanted["answer"])
    conf = {
        "spark.ui.enabled": "false",
        "spark.local.dir": wanted["scratch"],
        "spark.sql.warehouse.dir": wanted["scratch"],
        "spark.log.level": "ERROR",
    }
    if wanted["plan"] == "auto":
        cluster = ClusterSpec(1, wanted["slots"], wanted["limit"], local=True)
        # The limit is Spark's alone, and a heap is no larger than the work needs.
        constants = replace(SPARK4, os_reserved_bytes=0, storage_as_needed=True)
        try:
            choice = plan_feature_transfer(
                wanted["model"],
                cluster,
                layers=wanted["layers"],
                rows=len(files),
                structured_features=wanted["features"],
                image_bytes=sum(map(len, files)) // len(files),
                pooling=wanted["pooling"],
                downstream=named_size(estimator.__name__, 2),
                constants=constants,
            )
        except InfeasiblePlanError as error:
            answer.write_text(json.dumps({"refused": str(error)}))
            return
        said["predicted_bytes"] = choice.physical.peak_bytes
        said["plan"] = choice.explain()
        answer.write_text(json.dumps(said))
        batch_size = choice.physical.workload.model.batch_size
        spark = session(plan=choice.physical, conf=conf)
    else:
        heap = f"{int(wanted['heap'] or _HABIT * wanted['limit']) >> 20}m"
        conf |= {"spark.driver.memory": heap}
        if wanted["guard"]:
            conf |= {"spark.cerebro.memory.guard": "true"}
        spark = session(f"local[{wanted['slots']}]", conf=conf)
    job = FeatureTransfer(
        model=wanted["model"],
        layers=wanted["layers"],
        downstream=estimator(),
        pooling=wanted["pooling"],
        plan=wanted["plan"],
        join=wanted["join"],
        partitions=wanted["partitions"],
        batch_size=batch_size,
        experiment=None,
        progress=False,
    )
    try:
        said["scores"] = _transfer(spark, job, files, wanted["features"])
    except InfeasiblePlanError as error:
        said["refused"] = str(error)
    answer.write_text(json.dumps(said))


def _transfer(spark: SparkSession, job: FeatureTransfer, files: list[bytes], features: int) -> list[float]:
    # Made by the JVM: a wide table from Python would be memory of its own.
    numbers = F.transform(F.sequence(F.lit(1), F.lit(features)), lambda place: F.sin(place * (F.col("id") + 1)))
    label = (F.col("id") % 2).cast("double").alias("label")
    structured = spark.range(len(files)).select("id", array_to_vector(numbers).alias("features"), label)
    images = spark.createDataFrame(
        [(number, bytearray(file)) for number, file in enumerate(files)], "id long, image binary"
    )
    result = job.run(structured, images)
    return [row.score for row in result.rows]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    sys.stdout.flush()
    # Spark's shutdown hooks have nothing to add to a verdict that is written down.
    os._exit(0)
