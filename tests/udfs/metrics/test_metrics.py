"""Metrics over shards are those over all rows, as scikit-learn computes them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as reference

from udfs.metrics import merge_sums, metric


@pytest.mark.parametrize(
    "name", ["accuracy", "top_5_accuracy", "precision", "recall", "f1", "auc", "mse", "rmse", "mae"]
)
@given(data=st.data())
def test_metrics_over_shards_are_those_over_all_rows(name: str, data: st.DataObject) -> None:
    rows = data.draw(st.integers(2, 40))
    binary = name in {"precision", "recall", "f1", "auc"}
    width = data.draw(st.sampled_from([1, 2])) if binary else {"top_5_accuracy": 8}.get(name, 3)
    if name in {"mse", "rmse", "mae"}:
        width = 1
    # Few distinct scores, so that there are ties.
    scores = data.draw(hnp.arrays(np.float32, (rows, width), elements=st.sampled_from([-2.0, -0.5, 0.25, 1.0, 3.0])))
    truth = data.draw(hnp.arrays(np.int64, rows, elements=st.integers(0, 1 if binary else max(1, width - 1))))
    cuts = sorted(data.draw(st.lists(st.integers(1, rows - 1), max_size=3)))
    found = metric(name)
    total: dict[str, np.ndarray] = {}
    for start, end in zip([0, *cuts], [*cuts, rows], strict=True):
        if end > start:
            total = merge_sums(total, {name: found.part(scores[start:end], truth[start:end])})
    flat = scores[:, 0] if width == 1 else scores[:, 1] - scores[:, 0]
    picked = (flat > 0).astype(int) if width <= 2 and binary else scores.argmax(axis=1)
    expected = {
        "accuracy": lambda: reference.accuracy_score(truth, picked),
        "top_5_accuracy": lambda: np.mean(
            [label in np.argsort(-row, kind="stable")[:5] for row, label in zip(scores, truth, strict=True)]
        ),
        "precision": lambda: reference.precision_score(truth, picked, zero_division=0),
        "recall": lambda: reference.recall_score(truth, picked, zero_division=0),
        "f1": lambda: reference.f1_score(truth, picked, zero_division=0),
        "auc": lambda: reference.roc_auc_score(truth, flat) if len(set(truth.tolist())) > 1 else float("nan"),
        "mse": lambda: reference.mean_squared_error(truth, scores),
        "rmse": lambda: reference.root_mean_squared_error(truth, scores),
        "mae": lambda: reference.mean_absolute_error(truth, scores),
    }[name]()
    assert found.result(total[name]) == pytest.approx(expected, nan_ok=True)
