"""Search a network for the adult census every day, and register the best one if it beats the one before: a DAG.

Copy it into Airflow's folder of DAGs, and set these variables for Airflow's workers:

* ``CEREBRO_PYTHON``, a Python with cerebro-spark and torch;
* ``CEREBRO_EXAMPLES``, the folder ``examples`` of a checkout;
* ``CEREBRO_DATA``, a folder that the workers share, with ``adult.parquet`` of ``examples/search_data.py adult``;
* ``SPARK_MASTER``, ``local[2]`` by default;
* ``MLFLOW_TRACKING_URI``, MLflow's server or SQLite file.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from cerebro_spark.airflow import CerebroOperator

PYTHON = os.environ.get("CEREBRO_PYTHON", "python3")
EXAMPLES = os.environ.get("CEREBRO_EXAMPLES", "examples")
DATA = os.environ.get("CEREBRO_DATA", "artifacts/airflow")
MASTER = os.environ.get("SPARK_MASTER", "local[2]")

with DAG(
    "adult_search",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    # A retry goes on from the last checkpoints of the try before.
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
):
    search = CerebroOperator(
        task_id="search",
        python=PYTHON,
        command=[
            *("tune", f"{EXAMPLES}/searches/adult.py", "--table", f"{DATA}/adult.parquet"),
            *("--store", f"{DATA}/store", "--out", f"{DATA}/runs/{{{{ ds }}}}", "--master", MASTER),
            # The order of shards does not depend on times: a disturbed run trains the models of an undisturbed one.
            *("--num-epochs", "2", "--metric", "accuracy", "--schedule", "fixed"),
        ],
    )
    register = CerebroOperator(
        task_id="register",
        python=PYTHON,
        command=[
            *(f"{EXAMPLES}/airflow/register_best.py", "--name", "adult", "--metric", "val_accuracy"),
            *("--search", "{{ ti.xcom_pull(task_ids='search') | tojson }}"),
        ],
    )
    search >> register
