"""Real processes of a cluster killed while a campaign materialises: Spark tries again, and the campaign goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from standalone import spark_environment

pytest.importorskip("torch")

if TYPE_CHECKING:
    from standalone import StandaloneCluster

DRIVER = """
import json, sys
sys.path[:0] = {paths!r}
from pyspark.sql import SparkSession
from campaigns import campaign, check_against_plain_loop, deadly, frame, records
from udfs.adaptation import FeatureStore, segments_of
spark = SparkSession.builder.master({master!r}).getOrCreate()
space = {{"lr": [0.01], "layers": [2, 4]}}
made = campaign(spark, {store!r}, search_space=space, trainer_fn=deadly({mark!r}, executor={executor!r}))
cycle = made.fit(frame(spark, *records(0, 60)))
check_against_plain_loop(cycle)
features = FeatureStore(cycle.prepared.store, "campaign", made_with=made._campaign._candidates.made_with)
opened = [features.open(key, segment) for key in features.expressions() for segment in segments_of(cycle.prepared)]
rows = sum(len(one) for one in opened)
print("FOUND", json.dumps([cycle.materialised.trunk_rows, len(opened), rows]), flush=True)
spark.stop()
"""


@pytest.mark.parametrize("executor", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["executor", "python"])
def test_a_worker_that_is_killed_as_it_materialises(cluster: StandaloneCluster, tmp_path: Path, executor: bool) -> None:
    """The task runs again: each record is counted once, each file is whole, the models are those of a plain loop."""
    mark = tmp_path / "mark"
    settings: dict[str, Any] = {
        "paths": sys.path,
        "master": cluster.url,
        "store": str(tmp_path / "store"),
        "mark": str(mark),
        "executor": executor,
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER.format(**settings)],
        cwd=tmp_path,
        env=spark_environment(tmp_path, Path(sys.executable), SPARK_LOCAL_IP=cluster.host),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert mark.exists()
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    trunk_rows, files, rows = json.loads(line.removeprefix("FOUND "))
    assert (trunk_rows, rows) == (60, 2 * 60)
    assert files == 2 * 4
