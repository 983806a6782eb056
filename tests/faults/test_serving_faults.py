"""A server whose backends are lost, hang or slow down while they answer, and whose clients are too many or go away.

Every request ends within its SLO and 100 ms, in an answer or in an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Search
    from standalone import StandaloneCluster

PROGRAM = Path(__file__).with_name("serving.py")


def hold_what_always_holds(found: dict[str, Any]) -> None:
    assert found["asked"] > 100
    assert found["slowest_ms"] <= found["limit_ms"]
    assert found["last_errors"] == []
    assert sorted(found["backends"]) == ["backend-0", "backend-1"], "both are there at the end"
    assert found["waiting"] == 0
    assert found["slots_free"] == 6


def kill_while_serving(
    cluster: StandaloneCluster, searching: Callable[..., Search], victim: Callable[[int], int], **settings: Any
) -> tuple[dict[str, Any], str]:
    serving = searching("serving", driver=PROGRAM).start(seconds=45.0, **settings)
    serving.wait_for_line("LOADED ")
    application = cluster.executors()[-1].application
    cluster.kill(victim(cluster.python_workers(application)[0]))
    return serving.result(), serving.text()


def test_a_killed_executor(cluster: StandaloneCluster, searching: Callable[..., Search]) -> None:
    """Its Python processes go with it, and Spark has to start another one before the backend is back."""
    found, text = kill_while_serving(cluster, searching, lambda pid: int(psutil.Process(pid).parent().ppid()))
    hold_what_always_holds(found)
    assert found["errors"] == [], "the other backend has the model open, and time enough to answer for both"
    assert len(found["processes"]) >= 3
    assert re.search(r"backend backend-\d is lost", text)


def test_a_killed_driver(cluster: StandaloneCluster, searching: Callable[..., Search]) -> None:
    """No process is left to send requests: the backends end, and give their slots back."""
    serving = searching("serving", driver=PROGRAM).start(seconds=60.0)
    serving.wait_for_line("LOADED ")
    backends = [psutil.Process(pid) for pid in cluster.python_workers(cluster.executors()[-1].application)]
    assert backends
    serving.kill()
    _, alive = psutil.wait_procs(backends, timeout=90)
    assert alive == []


@pytest.mark.slow
def test_a_killed_backend(cluster: StandaloneCluster, searching: Callable[..., Search]) -> None:
    found, text = kill_while_serving(cluster, searching, lambda pid: pid)
    hold_what_always_holds(found)
    assert found["errors"] == []
    assert len(found["processes"]) >= 3, "its job was started again"
    assert re.search(r"backend backend-\d is lost", text)


@pytest.mark.slow
def test_a_killed_backend_of_an_application(cluster: StandaloneCluster, searching: Callable[..., Search]) -> None:
    """A call that was lost is made again, within what its request has left."""
    found, text = kill_while_serving(cluster, searching, lambda pid: pid, application=True)
    hold_what_always_holds(found)
    assert found["errors"] == []
    assert len(found["processes"]) >= 3
    assert re.search(r"backend backend-\d is lost", text)


@pytest.mark.slow
def test_a_batch_that_hangs(searching: Callable[..., Search]) -> None:
    """What waits behind it is late; then its backend counts as lost, its process is ended, another one comes."""
    serving = searching("serving", driver=PROGRAM).start(seconds=60.0, fault="hangs")
    found = serving.result()
    hold_what_always_holds(found)
    assert set(found["errors"]) <= {"TooLateError"}
    assert len(found["errors"]) >= 1, "the one that hangs, at least"
    assert re.search(r"backend backend-\d is lost: a batch has run for more than 10 s", serving.text())
    assert len(found["processes"]) >= 3


@pytest.mark.slow
def test_a_backend_three_times_slower(searching: Callable[..., Search]) -> None:
    """It bears 13 requests a second, as many as it is given."""
    found = searching("serving", driver=PROGRAM).start(seconds=30.0, fault="slow").result()
    hold_what_always_holds(found)
    assert len(found["processes"]) == 2
    assert set(found["errors"]) <= {"OverloadedError", "TooLateError"}
    assert len(found["errors"]) < found["asked"] / 4


@pytest.mark.slow
def test_five_times_the_load_for_ten_seconds(searching: Callable[..., Search]) -> None:
    found = searching("serving", driver=PROGRAM).start(seconds=35.0, fault="flood").result()
    hold_what_always_holds(found)
    assert set(found["errors"]) <= {"OverloadedError", "TooLateError"}
    assert len(found["errors"]) >= 50, "two backends do not bear it"
    assert found["asked"] - len(found["errors"]) > found["asked"] / 3


@pytest.mark.slow
def test_clients_that_hang_up(searching: Callable[..., Search]) -> None:
    """What they asked for is not computed, but for what a batch had already; the others notice nothing."""
    found = searching("serving", driver=PROGRAM).start(seconds=25.0, fault="hang up").result()
    hold_what_always_holds(found)
    assert found["errors"] == []
    assert found["computed_for_them"] < found["gone_clients"] / 2


@pytest.mark.slow
def test_a_killed_front_end(searching: Callable[..., Search]) -> None:
    """Its clients' connections break; the other process answers meanwhile, and the lost one is started again."""
    found = searching("serving", driver=PROGRAM).start(seconds=25.0, fault="front end").result()
    hold_what_always_holds(found)
    assert set(found["errors"]) <= {"cut"}
    assert len(found["errors"]) <= 10, "those that it had just then"
    assert found["front_ends"] == 2
