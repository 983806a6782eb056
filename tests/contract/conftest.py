from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

# A transformer and an estimator run through Connect in each CI run; the others share their base with these.
_ON_CONNECT = ("CNNFeaturizer", "MLPClassifier")
# A Spark of its own, and a dozen fits: half the time of a stage's contract.
_COSTLY = {"test_a_fresh_process_gives_the_same", "test_cross_validator"}


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the stages that run through Connect, and leave costly tests of them to the slow suite."""
    for item in items:
        if item.path.name != "test_stages.py":
            continue
        costly = getattr(item, "originalname", None) in _COSTLY
        quick = any(f"[{name}" in item.name for name in _ON_CONNECT) and not costly
        if quick or not costly or "[CNNFeaturizer" in item.name:
            item.add_marker(pytest.mark.connect if quick else pytest.mark.connect_slow)
