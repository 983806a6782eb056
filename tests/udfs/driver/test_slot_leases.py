"""Leases of task slots: servers and searches of one application share its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from cerebro_spark import SparkBackend
from cerebro_spark.errors import TooFewSlotsError
from optimizer.serving import BatchingProfile
from udfs.driver import lease_slots, leased_slots
from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_leases_of_an_application_add_up_until_they_are_released(spark: SparkSession) -> None:
    first = lease_slots(spark, 2, most=3)
    assert first is not None
    assert lease_slots(spark, 2, most=3) is None
    second = lease_slots(spark, 1, most=3)
    assert second is not None
    assert leased_slots(spark) == 3
    for _ in range(2):
        first.release()
    assert leased_slots(spark) == 1
    second.release()
    assert leased_slots(spark) == 0


def test_the_last_slot_is_refused_to_a_server_and_a_search(spark: SparkSession) -> None:
    server = Server(spark, backends=1)
    profile = BatchingProfile({1: 5.0, 8: 8.0})
    inputs = [TensorSpec("x", "float32", (-1, 2))]
    server.deploy(Session("m", model=lambda arrays: {"y": np.abs(arrays["x"])}, inputs=inputs, profile=profile))
    lease = lease_slots(spark, 1)
    assert lease is not None
    try:
        with pytest.raises(InvalidArgumentError, match=r"at most 0, .* slots that other servers and searches leave"):
            server.start()
        with pytest.raises(TooFewSlotsError, match="runs 1 tasks at a time beside the 1 of running servers"):
            SparkBackend(spark, num_workers=2).admit()
        SparkBackend(spark, num_workers=1).admit()
    finally:
        lease.release()
    assert leased_slots(spark) == 0
