from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as F
from searches import FEATURES, adult, common, plain_loop, search, states, trainer

from cerebro_spark import Selection
from cerebro_spark.data import prepare_increment
from udfs.shards import GrowingData, load_prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udfs.store import Store


@pytest.mark.slow
def test_a_run_keeps_to_the_rows_of_its_cycle(spark: SparkSession, store: Store) -> None:
    """Growing data train as any others do, and a run that goes on later finds them by name, whatever came since."""
    table = adult(spark, 500).withColumn("id", F.monotonically_increasing_id()).cache()

    def add(rows: str, name: str, **others: object) -> GrowingData:
        settings = {"id_column": "id", "feature_columns": FEATURES, "label_columns": ["label"], "num_shards": 2}
        return prepare_increment(table.where(rows), store, name=name, **settings | others)

    middle = table.selectExpr("percentile_approx(id, 0.5)").first()[0]
    first = add(f"id <= {middle}", "cycle-0")
    one = search(spark, store, search_space={"lr": [0.01], "hidden": [8]}, num_epochs=1, schedule="fixed")
    one.fit(first, run_id="first")
    later = add(f"id > {middle}", "cycle-1", previous=first)
    assert later.rows("train") > first.rows("train")
    backend = common(spark, store)["backend"]
    rest = Selection.resume(store, "first", backend=backend, trainer_fn=trainer, num_epochs=2, progress=False)
    assert rest.prepared == first == load_prepared(store, "cycle-0")
    (trial,) = rest.trials
    truth = plain_loop(first, trial.params, trial.trial_id, trial.visits, seed=5)
    (trained,) = states(rest).values()
    assert trained.keys() == truth.keys()
    for name, value in truth.items():
        np.testing.assert_array_equal(trained[name], value)
    assert rest.best_model.transform(table.limit(3)).count() == 3
