"""Backends of a server killed while they answer: every request ends in time, and what was accepted is answered."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Search
    from standalone import StandaloneCluster

PROGRAM = Path(__file__).with_name("serving.py")


@pytest.mark.slow
def test_a_killed_backend(cluster: StandaloneCluster, searching: Callable[..., Search]) -> None:
    serving = searching("serving", driver=PROGRAM).start(seconds=45.0)
    serving.wait_for_line("SERVING ")
    application = cluster.executors()[-1].application
    # A reading of its own, so that requests are in flight by then.
    killed = cluster.python_workers(application)[0]
    cluster.kill(killed)
    found = serving.result()
    assert found["asked"] > 100
    assert found["errors"] == [], "the other backend has the model open, and time enough to answer for both"
    assert found["slowest_ms"] <= found["limit_ms"]
    assert sorted(found["backends"]) == ["backend-0", "backend-1"], "its job was started again"
    assert len(found["processes"]) >= 2
    assert found["slots_free"] == 6
    assert re.search(r"backend backend-\d is lost", serving.text())
