"""Sessions with a catalog of variants on a real Spark session; the variants sleep as long as a table says."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle

from optimizer.serving import InfeasibleError
from optimizer.variants import Measurement
from udfs.serving import RequestError, TensorSpec
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Server, Session
from vista_spark.variants import Catalog, CatalogVariant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUTS = [TensorSpec("x", "float32", (-1, 1))]
ROW = np.zeros(1, np.float32)
SECONDS = 60.0


@dataclass(frozen=True)
class Emulated:
    """A function of whole batches that takes a fixed time per row."""

    value: float
    row_s: float

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        count = len(arrays["x"])
        time.sleep(count * self.row_s)
        return {"y": np.full(count, self.value)}


def variant(name: str, accuracy: float, model: Any, row_s: float) -> CatalogVariant:
    run = {1: row_s, 8: 8 * row_s}
    return CatalogVariant(Measurement(name, accuracy, 400, 0.5, 1.0, 10, 10, 1.0, 0.1, run, 32), model)


FULL, TINY = (
    variant(name, accuracy, Emulated(accuracy, row_s), row_s)
    for name, accuracy, row_s in (("full", 0.95, 0.05), ("tiny", 0.85, 0.005))
)
WORSE = variant("worse", 0.8, Emulated(0.8, 0.06), 0.06)
CATALOG = Catalog("scene", ("a", "b"), (FULL, TINY, WORSE))


def test_overload_is_answered_by_cheaper_variants(spark: SparkSession) -> None:
    server = Server(spark, backends=1, epoch_s=2.0)
    server.deploy(Session("scene", catalog=CATALOG, inputs=INPUTS, slo_ms=1000))
    assert server.profile("scene").latencies[1] >= 50
    with server.start(timeout_s=600.0) as api:
        alone = [api["scene"].execute(ROW).result(SECONDS) for _ in range(5)]
        assert [(str(answer["variant"]), float(answer["y"])) for answer in alone] == [("full", 0.95)] * 5
        # Twenty rows per second are the capacity of the full variant.
        asked = []
        for _ in range(240):
            asked.append(api["scene"].execute(ROW))
            time.sleep(0.025)
        answers: Counter[str] = Counter()
        for future in asked:
            try:
                answer = future.result(SECONDS)
            except RequestError as error:
                answers[type(error).__name__] += 1
            else:
                assert float(answer["y"]) == {"full": 0.95, "tiny": 0.85}[str(answer["variant"])]
                answers[str(answer["variant"])] += 1
        print(answers, api._control._shares)
        assert answers["full"] > 20
        assert answers["tiny"] > 20
        assert answers["full"] + answers["tiny"] > 200
        end = time.monotonic() + SECONDS
        while str(api["scene"].execute(ROW).result(SECONDS)["variant"]) != "full":
            assert time.monotonic() < end
            time.sleep(0.2)
