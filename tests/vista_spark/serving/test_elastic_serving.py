"""A server whose backends come with the traffic and go without it, and its plans in an experiment."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle

from optimizer.serving import BatchingProfile
from udfs.serving import OverloadedError, TensorSpec
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Server, Session
from vista_spark.serving._scaling import Scaling

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SECONDS = 120.0
SLO = 60_000
X = TensorSpec("x", "float32", (-1, 2))
ONE = np.ones(2, np.float32)


def double(arrays: Any) -> Any:
    return {"y": 2 * arrays["x"]}


def session(**options: Any) -> Session:
    return Session("double", model=double, inputs=[X], profile=BatchingProfile({1: 5.0, 8: 8.0}), slo_ms=SLO, **options)


def until(happened: Any) -> None:
    end = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_more_at_once_and_fewer_only_after_a_while() -> None:
    scaling = Scaling(1, 4)
    assert scaling.at_once(9, now=1) == (4, "the plan needs 4")
    assert scaling.at_once(1, now=4) == (4, "")
    assert scaling.after(1, now=4, idle=False) == (4, "")
    assert scaling.after(4, now=4, idle=False) == (4, ""), "traffic that came back starts the wait anew"
    assert scaling.after(1, now=4, idle=True) == (4, "")
    assert scaling.after(3, now=4, idle=False) == (3, "the plan needs 3 for 2 epochs")
    assert scaling.after(1, now=1, idle=True) == (1, ""), "never fewer than the least"


@pytest.mark.extended
@pytest.mark.connect_slow
def test_no_backend_without_traffic_and_one_with_it(spark: SparkSession, tracking: Any, tmp_path: Path) -> None:
    tracking.create_experiment("serving", artifact_location=(tmp_path / "runs").as_uri())
    server = Server(spark, backends=(0, 1), epoch_s=3.0).deploy(session())
    with server.start(timeout_s=600.0, experiment="serving") as api:
        assert api.backends == ("backend-0",)
        assert api["double"].execute(ONE).result(SECONDS).tolist() == [2, 2]
        until(lambda: api.backends == ())
        assert api.ready, "a request would wake it"
        assert api.plan is None
        assert spark.range(0, 4, 1, 2).count() == 4
        with pytest.raises(OverloadedError, match="Try again in") as refused:
            api["double"].execute(ONE).result(SECONDS)
        assert refused.value.retry_after_s >= 1
        until(lambda: api.ready and api.backends)
        assert api["double"].execute(ONE).result(SECONDS).tolist() == [2, 2]
    (run,) = tracking.MlflowClient().search_runs([tracking.get_experiment_by_name("serving").experiment_id])
    texts = sorted((tmp_path / "runs").rglob("plans/*.txt"))
    plans = [path.read_text() for path in texts]
    assert run.info.status == "FINISHED"
    assert run.data.params["backends"] == "0 to 1"
    assert run.data.metrics["seconds"] > 0
    assert plans[0].startswith("the server starts\n\n1 sessions on 1 backends")
    assert any("no request came for 2 epochs" in text and "no backend" in text for text in plans)


@pytest.mark.parametrize("backends", [(2, 1), (-1, 2), (0, 0), (1,), (0, True), 0])
def test_bounds_are_checked(spark: SparkSession, backends: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="backends"):
        Server(spark, backends=backends)


@pytest.mark.connect_slow
def test_the_most_leaves_a_slot_free(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match="backends must be at most 1"):
        Server(spark, backends=(0, 2)).deploy(session()).start()
