"""Inference in a session with the plugin, whose UI stays open until the standard input ends.

A program: plugins take effect only in a JVM that starts with them. It prints one line of JSON.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pushdown_plans
import pyarrow as pa
import torch
from PIL import Image
from pyspark import cloudpickle

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from udfs.arrow import NewColumns, RowMap, RowPolicy
from udfs.driver import map_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

__all__ = ["main"]

IMAGES = 48


class Stuck:
    """Stand-in for a network that waits forever for something."""

    batch_size = 1
    reads = ("id",)
    adds = (pa.field("y", pa.int64()),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        def wait_for_a_lock(batch: pa.RecordBatch) -> NewColumns:
            time.sleep(600)
            return NewColumns([batch.column("id")], [None])

        return wait_for_a_lock


def photograph(number: int) -> bytes:
    """Encode a photograph of random blocks."""
    blocks = np.random.default_rng(number).integers(0, 255, (24, 32, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(blocks).resize((1024, 768)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def trainer(params: dict[str, Any]) -> ModelTrainer:
    """Build a linear classifier of one number."""
    net = torch.nn.Linear(1, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])


def search(spark: SparkSession) -> None:
    """Search over two configurations on two workers."""
    table = spark.range(64).selectExpr("CAST(id AS DOUBLE) / 64 AS x", "id % 2 AS label")
    with tempfile.TemporaryDirectory() as folder:
        GridSearch(
            backend=SparkBackend(spark, num_workers=2, threads=1),
            store=Store.from_uri(folder),
            trainer_fn=trainer,
            search_space={"lr": [0.1, 0.01]},
            num_epochs=1,
            feature_columns=["x"],
            label_columns=["label"],
            metric="accuracy",
            progress=False,
        ).fit(table)


def main(settings: dict[str, str], images: int = IMAGES) -> None:
    """Run featurization and, unless there are no images, a stage that is stuck; print the addresses."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cloudpickle.register_pickle_by_value(pushdown_plans)
    spark = pushdown_plans.open_session(**({"spark.ui.enabled": "true", "spark.ui.port": "0"} | settings))
    context = spark.sparkContext
    found: dict[str, Any] = {"ui": context.uiWebUrl, "application": context.applicationId}
    if images:
        from vista_spark import CNNFeaturizer

        rows = [(number, photograph(number)) for number in range(images)]
        table = spark.createDataFrame(rows, "id int, image binary").repartition(2)
        context.setJobDescription("features of <photographs>")
        features = CNNFeaturizer(inputCol="image", model="resnet18", layers=["avgpool"], seed=1).transform(table)
        found["rows"] = len(features.drop("image").collect())
        search(spark)
        context.setJobDescription("stuck stage")
        stuck = map_rows(spark.range(1), RowMap(Stuck(), (), RowPolicy("null")))
        threading.Thread(target=stuck.collect, daemon=True).start()
    else:
        found["rows"] = len(pushdown_plans.stage(pushdown_plans.table(spark))[0].collect())
        # Executors report soon after their last task; an application that stops before has an incomplete log.
        time.sleep(2)
    sys.stdout.write(f"FOUND{json.dumps(found)}\n")
    sys.stdout.flush()
    sys.stdin.read()
    context.cancelAllJobs()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
