from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

# A Spark of its own, and a dozen fits: half the time of a stage's contract.
_COSTLY = {"test_a_fresh_process_gives_the_same", "test_cross_validator"}


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Leave the costly tests of the extended lane's stages to the slow suite: they share that code with a core one."""
    for item in items:
        if getattr(item, "originalname", None) in _COSTLY and item.get_closest_marker("extended"):
            item.add_marker(pytest.mark.slow)
