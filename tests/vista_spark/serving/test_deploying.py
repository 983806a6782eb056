"""What a server refuses before any backend starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.serving import Backend, BatchingProfile, InfeasibleError, ServingError
from optimizer.serving import Session as Planned
from udfs.node import hardware
from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError, UnknownModelError
from vista_spark.serving import Server, Session
from vista_spark.serving._control_loop import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = [TensorSpec("x", "float32", (-1, 2))]
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})


def double(arrays: Any) -> Any:
    return {"y": 2 * arrays["x"]}


@pytest.fixture
def server(spark: SparkSession) -> Server:
    return Server(spark, backends=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "name must be a non-empty str"),
        ({"name": "a/b"}, "without a slash"),
        ({"slo_ms": 0}, r"slo_ms must be .*, got 0"),
        ({"slo_ms": float("nan")}, r"slo_ms must be .*, got nan"),
        ({"rate": 0}, r"rate must be .*, got 0"),
        ({"rate": -1.0}, "rate must be a number .*, got -1"),
        ({"rate": float("nan")}, r"rate must be .*, got nan"),
        ({"rate": True}, r"rate must be .*, got True"),
        ({"profile": {1: 5.0}}, "must be an optimizer.serving.BatchingProfile"),
        ({"inputs": ["x"]}, "TensorSpec objects"),
        ({"inputs": INPUTS, "head": "head.safetensors"}, "neither weights nor a head"),
        ({"layer": "pool"}, "without a head"),
    ],
)
def test_a_session_checks_itself(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Session(**{"name": "f", "model": double} | options)


def test_a_deadline_under_twice_a_batch_of_one(server: Server) -> None:
    with pytest.raises(InfeasibleError, match=r"slo_ms of session 'f' must be at least 10.*got 9"):
        server.deploy(Session("f", model=double, inputs=INPUTS, profile=PROFILE, slo_ms=9))


def test_two_sessions_of_one_name(server: Server) -> None:
    session = Session("f", model=double, inputs=INPUTS, profile=PROFILE)
    server.deploy(session)
    with pytest.raises(InvalidArgumentError, match="got 'f', which a session has already"):
        server.deploy(session)


def test_a_profile_without_a_batch_of_one() -> None:
    with pytest.raises(ServingError, match=r"must contain batch size 1.*got 2"):
        BatchingProfile({2: 5.0})


def test_a_profile_of_another_machine(server: Server) -> None:
    there = BatchingProfile({1: 5.0}, hardware="an abacus", threads=1)
    with pytest.raises(ServingError, match=r"must be measured on .*got one of 'an abacus'"):
        server.deploy(Session("f", model=double, inputs=INPUTS, profile=there))
    here = BatchingProfile({1: 5.0}, hardware=hardware(), threads=1)
    server.deploy(Session("f", model=double, inputs=INPUTS, profile=here))


def test_a_function_without_inputs_and_a_model_that_is_not_there(server: Server) -> None:
    with pytest.raises(InvalidArgumentError, match="For a function set inputs"):
        server.deploy(Session("f", model=double))
    with pytest.raises(UnknownModelError):
        server.deploy(Session("f", model="mobilenet_v9"))


def test_more_traffic_than_the_backends_bear(server: Server) -> None:
    server.deploy(Session("f", model=double, inputs=INPUTS, profile=PROFILE, rate=100_000.0))
    with pytest.raises(InfeasibleError, match="1 backends can serve"):
        server.plan()


@pytest.mark.parametrize("options", [{"backends": 0}, {"backends": True}, {"epoch_s": 0}, {"policy": "none"}])
def test_a_server_checks_itself(spark: SparkSession, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        Server(spark, **options)


def test_nothing_to_serve(server: Server) -> None:
    with pytest.raises(InvalidArgumentError, match="must have a session"):
        server.plan()


def test_a_function_is_measured_where_no_profile_is_given(server: Server) -> None:
    server.deploy(Session("f", model=double, inputs=INPUTS))
    profile = server.profile("f")
    assert profile.max_batch >= 1
    assert profile.hardware == hardware()
    assert np.all(np.diff(profile.latencies) >= 0)


def test_traffic_beyond_all_backends_is_planned_as_far_as_it_goes() -> None:
    backends = [Backend("a"), Backend("b")]
    session = Planned("f", PROFILE, 100.0, 10_000.0)
    base, live, share = planned([session], backends)
    assert 0 < share < 1
    assert {node.backend.name for node in live.nodes} == {"a", "b"}
    again, _, same = planned([session], backends, base)
    assert (again is base, same) == (True, share)
