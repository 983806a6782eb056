"""Emulated accelerators take what their profiles say."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark import cloudpickle

from benchmarks.serving.emulated_model import EmulatedModel
from optimizer.errors import InvalidArgumentError
from optimizer.serving import BatchingProfile, ServingError
from udfs.serving import TensorSpec

PROFILE = BatchingProfile({1: 2.0, 4: 5.0})


@pytest.mark.parametrize(("rows", "stretch", "least_ms"), [(1, 1.0, 2.0), (4, 1.0, 5.0), (3, 2.0, 8.0)])
def test_a_batch_takes_no_less_than_the_profile_says(rows: int, stretch: float, least_ms: float) -> None:
    model = cloudpickle.loads(cloudpickle.dumps(EmulatedModel(PROFILE, stretch)))
    answer = model({"x": np.zeros((rows, 1), np.float32)})
    assert answer["batch"].tolist() == [rows] * rows
    assert (answer["ended_s"] - answer["began_s"] >= least_ms / 1000).all()
    assert float(model.stretched.latencies[rows]) == pytest.approx(least_ms)


def test_inputs_of_any_kind_are_counted() -> None:
    model = EmulatedModel(PROFILE, inputs=(TensorSpec("image", "bytes", (-1,)),))
    assert model({"image": np.array([b"a", b"b"], object)})["batch"].tolist() == [2, 2]


def test_a_batch_beyond_the_profile_is_refused() -> None:
    with pytest.raises(ServingError, match="batch must be from 1 to 4"):
        EmulatedModel(PROFILE)({"x": np.zeros((5, 1), np.float32)})


@pytest.mark.parametrize("stretch", [0, -1.0, float("nan"), float("inf")])
def test_a_stretch_that_cannot_be(stretch: float) -> None:
    with pytest.raises(InvalidArgumentError, match="stretch"):
        EmulatedModel(PROFILE, stretch)
