"""Explain the photographs about which a network is least certain, over Spark Connect: a DAG of TaskFlow functions.

The functions run in the Python of cerebro-spark and torch, not in Airflow's own, and their Spark is that of a Connect
server. A retry of a task computes its files anew. Set these variables for Airflow's workers:

* ``CEREBRO_PYTHON``, a Python with cerebro-spark, its extra ``spark``, and torch;
* ``SPARK_REMOTE``, the address of the Connect server, ``sc://host:15002``;
* ``CEREBRO_DATA``, a folder that the workers share, with ``images/`` and ``weights.pt`` of ``CEREBRO_MODEL`` (default
  ``squeezenet1_1``).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task

PYTHON = os.environ.get("CEREBRO_PYTHON", "python3")
DATA = os.environ.get("CEREBRO_DATA", "artifacts/airflow")
MODEL = os.environ.get("CEREBRO_MODEL", "squeezenet1_1")


@task.external_python(python=PYTHON, expect_airflow=False)
def find_uncertain(data: str, model: str, out: str, count: int) -> list[str]:
    """Compute the probabilities of all photographs, and write those whose largest one is smallest."""
    import numpy as np
    from pyspark.sql import SparkSession

    from vista_spark import CNNFeaturizer

    spark = SparkSession.builder.getOrCreate()
    photographs = spark.read.format("binaryFile").load(f"{data}/images").withColumnRenamed("content", "image")
    featurizer = CNNFeaturizer(
        model=model, weights=f"{data}/weights.pt", layers=[1], outputCols=["logits"], outputFormat="array"
    )
    rows = featurizer.transform(photographs).where("logits is not null").select("path", "logits").toPandas()
    logits = np.stack([np.asarray(row) for row in rows["logits"]])
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    certainty = exponentials.max(axis=1) / exponentials.sum(axis=1)
    uncertain = [str(path) for path in rows["path"].iloc[certainty.argsort()[:count]]]
    photographs.where(photographs["path"].isin(uncertain)).write.mode("overwrite").parquet(f"{out}/uncertain")
    return uncertain


@task.external_python(python=PYTHON, expect_airflow=False)
def explain(data: str, model: str, out: str, uncertain: list[str]) -> int:
    """Write a heat map of each uncertain photograph, and return their number."""
    from pyspark.sql import SparkSession

    from vista_spark import OcclusionExplainer

    spark = SparkSession.builder.getOrCreate()
    explainer = OcclusionExplainer(model=model, weights=f"{data}/weights.pt", mode="exact", patchSize=32, stride=32)
    photographs = spark.read.parquet(f"{out}/uncertain")
    maps = explainer.fit(photographs).transform(photographs).select("path", "heat_map", "explanation", "image_error")
    maps.write.mode("overwrite").parquet(f"{out}/heat_maps")
    explained = spark.read.parquet(f"{out}/heat_maps").where("heat_map is not null").count()
    if explained < len(uncertain):
        print(f"{len(uncertain) - explained} of {len(uncertain)} photographs have no heat map: see image_error")
    return int(explained)


with DAG(
    "photographs_explained",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
):
    place = f"{DATA}/explained/{{{{ ds }}}}"
    explain(DATA, MODEL, place, find_uncertain(DATA, MODEL, place, 5))
