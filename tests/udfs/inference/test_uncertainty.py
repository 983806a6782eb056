from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.arrow import NewColumns, to_lists
from udfs.inference import UNCERTAINTIES, OutputUncertainty, PoolScore, uncertainty
from udfs.training import Task


@pytest.mark.parametrize("how", UNCERTAINTIES)
def test_padding_does_not_count(how: str) -> None:
    """Two tokens and two of padding, which the network is unsure of."""
    sure, half, even = [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]
    chances = np.array([[sure, half, even, even], [half, half, even, even]])
    present = np.array([[True, True, False, False], [True, True, False, False]])
    first, second = uncertainty(chances, how, present)
    assert first == pytest.approx(second / 2)
    assert uncertainty(chances, how)[0] > first


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.sampled_from(UNCERTAINTIES))
def test_nothing_is_less_certain_than_an_even_chance(weights: list[float], how: str) -> None:
    chances = np.array([weights]) / sum(weights)
    even = np.full((1, len(weights)), 1 / len(weights))
    sure = np.eye(1, len(weights))
    assert 0 == uncertainty(sure, how)[0] <= uncertainty(chances, how)[0] <= uncertainty(even, how)[0] + 1e-9


def test_nan_is_no_score() -> None:
    """Spark has it as the largest number: what the network can say nothing of would come first."""
    outputs = np.array([[np.nan, 0.0], [0.0, 0.0], [9.0, 0.0]], np.float32)
    good = np.array([True, True, True, False])
    prediction: Any = SimpleNamespace(
        open=lambda _threads: lambda _batch: NewColumns([to_lists(outputs, good)], [None, None, None, "null"])
    )
    function = PoolScore(prediction, OutputUncertainty("margin", Task("multiclass", outputs="logits")), "score")
    found = function.open(1)(pa.RecordBatch.from_pydict({"x": range(4)})).columns[0].to_pylist()
    assert (found[0], found[3]) == (None, None)
    assert found[1] == pytest.approx(1)
    assert found[2] == pytest.approx(0, abs=1e-3)
