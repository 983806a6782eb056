"""A campaign through Spark Connect, in a process of its own: one process is either classic or Connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from sessions import CONNECT, pytest_on_connect


@pytest.mark.connect
@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="this is the Connect run already")
def test_two_cycles_a_ranked_pool_and_a_process_that_goes_on(pytestconfig: pytest.Config) -> None:
    suite = Path(__file__).with_name("test_adaptation.py")
    kept = "two_cycles_equal or passes_the_trunk_once or by_lot or margin or another_object_goes_on"
    chosen = f"{kept} or (bad_batches and twice)"
    assert "6 passed" in pytest_on_connect(suite, chosen, pytestconfig.inipath)
