"""Isotonic regression and projections with a target, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes
from sklearn.isotonic import IsotonicRegression

from tests.support.agreement import agree
from vista_spark import compile_pipeline


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**16), st.sampled_from(["nan", "clip", "raise"]), st.sampled_from([np.float64, np.float32]))
def test_isotonic(seed: int, outside: str, dtype: Any) -> None:
    draw = np.random.default_rng(seed)
    rows = draw.integers(-9, 9, (draw.integers(1, 30), 1)).astype(dtype) / 4
    model = IsotonicRegression(out_of_bounds=outside, increasing=bool(seed % 2))
    with np.errstate(all="ignore"):
        model.fit(rows, draw.normal(size=len(rows)).astype(dtype))
    inner = draw.uniform(rows.min(), rows.max(), (40, 1)).astype(dtype)
    far = np.array([[-1e6], [1e6], [np.nextafter(rows.max(), dtype(9))]], dtype)
    agree(model, rows, inner, *([far] if outside != "raise" else []))


def test_isotonic_holds_rows_to_its_bounds() -> None:
    model = IsotonicRegression().fit([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
    model.set_params(out_of_bounds="raise").fit([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
    compiled = compile_pipeline(model)
    with pytest.raises(ValueError, match=r"row 1 has a number outside of 1.0 to 3.0"):
        compiled.predict([[2.0], [3.5]])
    with pytest.raises(ValueError, match="row 0 has NaN"):
        compiled.predict([[np.nan]])


@pytest.mark.parametrize("model", [PLSRegression(3), PLSRegression(2, scale=False)], ids=str)
def test_projections(model: Any) -> None:
    table, values = load_diabetes(return_X_y=True)
    target = np.stack([values, table[:, 2] * values], axis=1)
    agree(model.fit(table[::2], target[::2]), table, table.astype(np.float32))
    agree(model.fit(table, values), table)
