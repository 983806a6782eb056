"""Real processes killed in the middle of procedures: the decisions equal those of an undisturbed run."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Search
    from standalone import StandaloneCluster

# Small, with decisions after most epochs; together, for decisions then follow from the seed.
PROCEDURES: dict[str, dict[str, Any]] = {
    "Hyperband": {"max_epochs": 4, "eta": 2},
    "ASHA": {"max_epochs": 4, "eta": 2, "max_configurations": 6, "concurrency": 3},
    "PBT": {"population": 4, "num_epochs": 4, "ready": 1, "only": ["lr"]},
}
# Faults, and the calls of the procedure after which each comes: early, and in the middle.
FAULTS = [("driver", 2), ("driver", 4), ("worker", 3), ("executor", 3)]
# One is for every day; each takes three to four starts of Spark.
DAILY = {("ASHA", "executor")}
CASES = [
    pytest.param(
        procedure,
        fault,
        calls,
        marks=() if (procedure, fault) in DAILY and calls < 4 else pytest.mark.slow,
    )
    for procedure in PROCEDURES
    for fault, calls in FAULTS
]


def settings_of(procedure: str, **others: Any) -> dict[str, Any]:
    return {"procedure": procedure, "rounds": "together", "seconds": 0.03, **PROCEDURES[procedure], **others}


def same(found: dict[str, Any], undisturbed: dict[str, Any]) -> None:
    assert found["decisions"] == undisturbed["decisions"]
    assert len(found["decisions"]) > len(found["statuses"]), "it only started configurations"
    for what in ("statuses", "digests", "histories", "clones"):
        assert found[what] == undisturbed[what]


@pytest.mark.parametrize(("procedure", "fault", "calls"), CASES)
def test_a_fault_changes_no_decision(
    cluster: StandaloneCluster,
    searching: Callable[..., Search],
    calm: Callable[..., dict[str, Any]],
    procedure: str,
    fault: str,
    calls: int,
) -> None:
    undisturbed = calm(procedure, **settings_of(procedure, seconds=0.0))
    assert bool(undisturbed["clones"]) == (procedure == "PBT")
    search = searching("faulty").start(**settings_of(procedure))
    search.wait_for_orders(calls)
    if fault == "driver":
        search.kill()
        found = searching("faulty").start("resume", **settings_of(procedure, seconds=0.0)).result()
        assert 0 < found["trained"] < undisturbed["units"]
    else:
        application = cluster.executors()[-1].application
        if fault == "worker":
            cluster.kill(cluster.python_workers(application)[0])
        else:
            cluster.kill(cluster.executors(application)[0].pid)
        found = search.result()
        assert found["losses"]
    same(found, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("procedure", PROCEDURES)
def test_a_worker_that_wakes_after_it_was_given_up_changes_nothing(
    cluster: StandaloneCluster, searching: Callable[..., Search], calm: Callable[..., dict[str, Any]], procedure: str
) -> None:
    """Its process and its heartbeat stand still until the driver has taken it for lost, and then go on."""
    psutil = pytest.importorskip("psutil")
    undisturbed = calm(procedure, **settings_of(procedure, seconds=0.0))
    search = searching("asleep").start(**settings_of(procedure, backend={"rejoin_s": 2.0}))
    search.wait_for_orders(3)
    worker = psutil.Process(cluster.python_workers(cluster.executors()[-1].application)[0])
    asleep = [worker, *worker.children(recursive=True)]
    assert len(asleep) > 1, "no heartbeat"
    for process in asleep:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        search.wait_for_line("has not called for 15 s")
    finally:
        for process in asleep:
            if process.is_running():
                os.kill(process.pid, signal.SIGCONT)
    found = search.result()
    assert any("has not called for" in loss for loss in found["losses"])
    same(found, undisturbed)
