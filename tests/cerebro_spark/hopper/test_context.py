"""Shares of the shards: each worker has its own, then copies of the next workers'."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from simulated_run import SPEC, run_context


@pytest.mark.parametrize(
    ("replicas", "shares"),
    [
        (1, {"w0": (0, 2, 4), "w1": (1, 3)}),
        (2, {"w0": (0, 2, 4, 1, 3), "w1": (1, 3, 0, 2, 4)}),
    ],
)
def test_workers_share_the_partitions(replicas: int, shares: dict[str, tuple[int, ...]]) -> None:
    backend: Any = SimpleNamespace(num_workers=2, most_workers=3)
    context = run_context(5, spec=replace(SPEC, replicas=replicas), backend=backend)
    assert context.first_shares == shares
    assert context.shares == {**shares, "w2": ()}, "a worker that joins later has none yet"
    assert context.train_rows == dict.fromkeys(range(5), 10)
