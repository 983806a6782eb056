"""The benchmark's arms that average gradients every step train the same networks, with every backend."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sessions import CONNECT

from cerebro_spark import Store, prepare

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="examples/build_horovod.sh builds Horovod"),
    pytest.mark.skipif(CONNECT, reason="tasks are the same on Connect"),
]


def test_the_arms_agree(spark: SparkSession, tmp_path: Path) -> None:
    from benchmarks.hopper._arms import BATCH, Arm, Work  # it imports torch

    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 1001)
    features = draw.normal(size=(1001, 5)) + 0.7 * labels[:, None]
    table = spark.createDataFrame(
        list(zip(features.tolist(), labels.tolist(), strict=True)), "x array<double>, label long"
    )
    prepared = prepare(
        table, Store.from_uri(str(tmp_path)), feature_columns=["x"], label_columns=["label"], num_shards=2
    )
    configs = tuple({"lr": lr, "decay": 1e-4, "hidden": [12, 6]} for lr in (1e-2, 1e-3))
    work = Work(prepared, configs, epochs=2, seed=1)

    def trained(how: str, taken: Work) -> dict[int, Any]:
        arm = Arm(taken, how, 2)
        found = spark.range(0, 2, 1, 2).mapInArrow(arm, arm.schema, barrier=True).collect()
        assert len(found) == 2 * len(taken.configs), "each task reports each configuration"
        return {row["config"]: (row["errors"], row["sent"]) for row in found}

    assert BATCH % 2 == 0, "a task's share of the global batch"
    assert trained("horovod", work) == trained("all-reduce", work)
    # And it does learn: less than half of what guessing gives.
    errors, _ = trained("horovod", replace(work, epochs=3))[0]
    assert errors[-1] < 0.25
