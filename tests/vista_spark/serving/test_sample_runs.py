"""A function is run on a sample when it is deployed: its outputs are described, and faults are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.serving import BatchingProfile
from udfs.serving import TensorSpec
from udfs.store import Store
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import ModelStore, Session
from vista_spark.serving._catalog import Deployed

if TYPE_CHECKING:
    from pathlib import Path

X = TensorSpec("x", "float32", (-1, 2))
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})


def session(model: Any, inputs: Any = (X,), **options: Any) -> Session:
    return Session("m", model=model, inputs=inputs, **{"profile": PROFILE, "slo_ms": 60_000.0, **options})


def deployed(model: Any, inputs: Any = (X,), **options: Any) -> Any:
    return Deployed(1, "cpu").open_session(session(model, inputs, **options))[0]


def positive(arrays: Any) -> Any:
    if (arrays["x"] <= 0).any():
        raise ValueError("must be above zero")
    return {"y": np.log(arrays["x"])}


@pytest.mark.parametrize(
    ("model", "inputs", "outputs"),
    [
        (lambda arrays: {"y": arrays["x"]}, [X], [TensorSpec("y", "float32", (-1, 2))]),
        (lambda arrays: {0: arrays["x"].sum(1)}, [X], [TensorSpec("0", "float32", (-1,))]),
        (
            lambda arrays: {"y": arrays["x"], "n": np.full(len(arrays["x"]), 3)},
            [TensorSpec("x", "float64", (-1, -1))],
            [TensorSpec("y", "float64", (-1, -1)), TensorSpec("n", "int64", (-1,))],
        ),
        (
            lambda arrays: {"label": np.array(["a"] * len(arrays["t"]))},
            [TensorSpec("t", "str", (-1, 2))],
            [TensorSpec("label", "str", (-1,))],
        ),
    ],
)
@pytest.mark.parametrize("profile", [PROFILE, None])
def test_outputs_are_described(model: Any, inputs: Any, outputs: Any, profile: Any) -> None:
    served = deployed(model, inputs, profile=profile).served
    assert served.outputs == ()
    assert list(served.described_outputs) == outputs


def test_declared_outputs_are_checked_and_kept() -> None:
    declared = [TensorSpec("y", "float32", (-1, -1))]
    assert list(deployed(lambda arrays: {"y": arrays["x"]}, outputs=declared).served.described_outputs) == declared
    with pytest.raises(InvalidArgumentError, match="outputs must be among z, which the model returns, got y"):
        deployed(lambda arrays: {"z": arrays["x"]}, outputs=declared)


@pytest.mark.parametrize("profile", [PROFILE, None])
@pytest.mark.parametrize(
    "model", [lambda arrays: {("a",): arrays["x"]}, lambda _: {}, lambda arrays: {"y": arrays["x"] * 1j}]
)
def test_outputs_that_cannot_be_sent_are_refused(model: Any, profile: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"model must return outputs that can be sent\. .*utput"):
        deployed(model, profile=profile)


def test_a_model_that_refuses_a_made_up_record_gets_a_sample() -> None:
    with pytest.raises(InvalidArgumentError, match="must answer a made-up record, got ValueError in session 'm'"):
        deployed(positive, profile=None)
    assert deployed(positive).served.described_outputs == (), "its backends may differ from this machine"
    with pytest.raises(InvalidArgumentError, match="must answer a made-up record"):
        Deployed(1, "cpu").open_session(session(positive), strict=True)
    with pytest.raises(InvalidArgumentError, match="must answer its sample, got ValueError"):
        deployed(positive, sample=np.zeros(2, np.float32))
    sample = {"x": np.ones(2, np.float32)}
    for profile in (PROFILE, None):
        served = deployed(positive, profile=profile, sample=sample).served
        assert served.described_outputs == (TensorSpec("y", "float32", (-1, 2)),)


def test_a_sample_and_missing_values_are_kept_in_a_store(tmp_path: Path) -> None:
    store = Store.from_uri(str(tmp_path))
    inputs = [TensorSpec("x", "float32", (-1, 2), missing=True)]
    ModelStore(store).save(session(positive, inputs, sample=np.ones(2, np.float32)))
    asked = Session("m", model="store:/m/1", slo_ms=60_000.0)
    opened, _ = Deployed(1, "cpu").open_session(asked, store)
    assert opened.served.inputs == tuple(inputs)
    assert opened.served.described_outputs == (TensorSpec("y", "float32", (-1, 2)),)
    with pytest.raises(InvalidArgumentError, match="must answer its sample"):
        Deployed(1, "cpu").open_session(replace(asked, sample=np.zeros(2, np.float32)), store)
