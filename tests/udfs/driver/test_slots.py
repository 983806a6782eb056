from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.driver import _slots as slots
from udfs.driver import is_local, task_slots

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_a_local_session_has_its_slots_at_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_PATIENCE_S", float("inf"))
    assert is_local(spark)
    assert task_slots(spark) == 2
    assert task_slots(spark, wanted=3) == 2


def test_a_cluster_that_stays_too_small_is_waited_for_in_vain(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slots, "is_local", lambda _spark: False)
    monkeypatch.setattr(slots, "_PATIENCE_S", 1.0)
    with caplog.at_level("INFO", logger="udfs"):
        assert task_slots(spark, wanted=2) == 2
        assert not caplog.messages
        assert task_slots(spark, wanted=3) == 2
    assert caplog.messages == ["2 of 3 task slots are there: waiting for executors to register"]
