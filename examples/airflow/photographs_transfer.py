"""Compare the layers of a network as features of photographs, by ``spark-submit``: a DAG.

Airflow's Spark provider submits ``vista.py`` of ``vista package``, which takes the words of the command ``vista``, to
the cluster of the connection ``spark_default``. ``spark-submit`` is on the workers' path, and its Python has
cerebro-spark's requirements (``PYSPARK_PYTHON``). Set these variables for Airflow's workers:

* ``CEREBRO_PACKAGE``, the folder that ``vista package --out DIR`` has written;
* ``CEREBRO_DATA``, a folder that the workers share, with ``images/``, ``table.csv`` (as of ``examples/stamps.py``), and
  ``weights.pt`` of ``CEREBRO_MODEL`` (default ``squeezenet1_1``).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

PACKAGE = Path(os.environ.get("CEREBRO_PACKAGE", "dist"))
DATA = os.environ.get("CEREBRO_DATA", "artifacts/airflow")
MODEL = os.environ.get("CEREBRO_MODEL", "squeezenet1_1")

with DAG(
    "photographs_transfer",
    schedule="@weekly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
):
    SparkSubmitOperator(
        task_id="transfer",
        application=str(PACKAGE / "vista.py"),
        py_files=",".join(map(str, sorted(PACKAGE.glob("cerebro_spark-*.zip")))),
        application_args=[
            *("transfer", "--images", f"{DATA}/images", "--table", f"{DATA}/table.csv", "--label", "label"),
            *("--model", MODEL, "--weights", f"{DATA}/weights.pt", "--layers", "fire8,fire9,pool10"),
            *("--out", f"{DATA}/transfers/{{{{ ds }}}}"),
        ],
    )
