"""Real processes of a cluster killed in the middle of a search: the models equal those of an undisturbed run."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from standalone import Node, StandaloneCluster

pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Search

UNITS = 4 * 3 * 3
WORKERS = 3


def same(found: dict[str, Any], undisturbed: dict[str, Any]) -> None:
    assert found["statuses"] == dict.fromkeys(found["statuses"], "finished")
    assert found["digests"] == undisturbed["digests"]
    assert found["histories"] == undisturbed["histories"]


def application(cluster: StandaloneCluster, search: Search) -> str:
    search.wait_until(lambda: bool(cluster.executors()))
    return cluster.executors()[-1].application


def test_nothing_happens(undisturbed: dict[str, Any]) -> None:
    assert undisturbed["units"] == UNITS
    assert undisturbed["redone"] == 0
    assert undisturbed["trained"] == UNITS
    assert undisturbed["losses"] == []
    assert len(undisturbed["workers"]) == WORKERS


def test_a_killed_executor(
    cluster: StandaloneCluster, searching: Callable[..., Search], undisturbed: dict[str, Any]
) -> None:
    search = searching("executor").start()
    search.wait_for_units(4)
    cluster.kill(cluster.executors(application(cluster, search))[0].pid)
    found = search.result()
    same(found, undisturbed)
    assert found["losses"]
    assert found["redone"] <= WORKERS, "more than what was in flight"
    assert len(found["workers"]) == WORKERS


def test_a_killed_python_worker(
    cluster: StandaloneCluster, searching: Callable[..., Search], undisturbed: dict[str, Any]
) -> None:
    search = searching("python").start()
    search.wait_for_units(3)
    cluster.kill(cluster.python_workers(application(cluster, search))[0])
    found = search.result()
    same(found, undisturbed)
    assert found["losses"]
    assert found["redone"] <= 2, "its unit, and one that it had not written yet"


def test_an_interrupted_python_worker_hands_over(
    cluster: StandaloneCluster, searching: Callable[..., Search], undisturbed: dict[str, Any]
) -> None:
    """States are stored when epochs end, so the worker has some that the store does not have."""
    search = searching("interrupted").start(checkpoints="epochs", seconds=0.1)
    search.wait_for_units(3)
    interrupt(cluster, search)
    found = search.result()
    same(found, undisturbed)
    assert [loss.endswith("its machine is about to end") for loss in found["losses"]] == [True]
    assert found["redone"] <= 1, "more than a unit that it was about to begin"
    assert len(found["workers"]) == WORKERS


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_interruptions(
    cluster: StandaloneCluster, searching: Callable[..., Search], calm: Callable[..., dict[str, Any]]
) -> None:
    """One after the other, more than a worker has restarts."""
    settings = {"num_epochs": 8, "seconds": 1.0}
    undisturbed = calm("long", **settings | {"seconds": 0.0})
    search = searching("twenty").start(**settings)
    search.wait_for_units(3)
    for number in range(20):
        interrupt(cluster, search)
        search.wait_until(lambda count=number: search.count_lines("its machine is about to end") > count)
        search.wait_until(lambda count=number: search.count_lines("is attached") >= WORKERS + count + 1)
    found = search.result()
    same(found, undisturbed)
    assert len(found["losses"]) == 20
    assert found["redone"] < 20, "units in flight were lost each time"


def interrupt(cluster: StandaloneCluster, search: Search) -> None:
    """Send SIGTERM to a Python worker that trains, which has a heartbeat beside it."""
    workers = cluster.python_workers(application(cluster, search))
    training = [pid for pid in workers if any(_beats(child) for child in psutil.Process(pid).children())]
    cluster.kill(training[0], signal.SIGTERM)


def _beats(process: psutil.Process) -> bool:
    return any("heartbeat of" in argument for argument in process.cmdline())


def test_a_killed_driver_is_resumed(
    searching: Callable[..., Search], undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    first = searching("driver", tmp_path / "kept").start()
    first.wait_for_units(14)
    first.kill()
    durable = first.versions()
    found = searching("driver", tmp_path / "kept").start("resume", seconds=0.0).result()
    same(found, undisturbed)
    at_start = found["units_at_start"]
    assert sum(durable.values()) >= 14
    # An executor may have written one more before it ended too.
    assert all(at_start[trial_id] >= units for trial_id, units in durable.items()), "a checkpoint was not used"
    assert found["trained"] == UNITS - sum(at_start.values()), "units were trained again"
    begun = [trial_id for trial_id, units in at_start.items() if 0 < units < UNITS // len(at_start)]
    assert begun
    assert set(found["from_store"]) >= set(begun), "a trial went on from another state than the store's"


def test_a_repeated_call_takes_over_from_a_driver_that_lives(
    searching: Callable[..., Search], undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """The first driver holds all task slots and stops for the second, which a scheduler has started too early."""
    first = searching("repeated", tmp_path / "kept").start(seconds=0.5)
    first.wait_for_units(5)
    found = searching("repeated", tmp_path / "kept").start("repeat", seconds=0.0).result()
    same(found, undisturbed)
    assert found["trained"] < UNITS, "it did not go on from the store"
    assert "STOPPED run 'repeated' was taken over by process" in first.text()


def test_a_unit_that_hangs(searching: Callable[..., Search], undisturbed: dict[str, Any], tmp_path: Path) -> None:
    found = searching("hang").start(seconds=0.0, hang=str(tmp_path / "once"), unit_timeout_s=6.0).result()
    same(found, undisturbed)
    assert (tmp_path / "once").exists()
    assert found["redone"] >= 1


def test_configurations_that_end_their_workers_are_ended_alone(
    searching: Callable[..., Search], undisturbed: dict[str, Any]
) -> None:
    """By os._exit and by a segmentation fault; with one restart per worker, of which they use none.

    Neither is the first configuration, which takes a step on the driver.
    """
    found = searching("deadly").start(deadly={"0.1 8": "segfault", "0.01 8": "exit"}, backend={"restarts": 1}).result()
    assert found["statuses"] == {"c000": "finished", "c001": "failed", "c002": "finished", "c003": "failed"}
    for trial_id in ("c001", "c003"):
        assert "its worker died 3 times while training it, the last time with no other" in found["tracebacks"][trial_id]
    for trial_id in ("c000", "c002"):
        assert found["digests"][trial_id] == undisturbed["digests"][trial_id]
        assert found["histories"][trial_id] == undisturbed["histories"][trial_id]
    assert len(found["workers"]) == WORKERS


@pytest.mark.slow
def test_a_worker_that_never_comes_back(
    searching: Callable[..., Search], cluster: StandaloneCluster, undisturbed: dict[str, Any]
) -> None:
    """Its shards go to the others, which read them from the store."""
    search = searching("given-up").start(backend={"restarts": 0})
    search.wait_for_units(4)
    cluster.kill(cluster.python_workers(application(cluster, search))[0])
    found = search.result()
    same(found, undisturbed)
    assert found["losses"]


@pytest.mark.slow
def test_a_node_that_is_gone_for_good(
    searching: Callable[..., Search], cluster: StandaloneCluster, undisturbed: dict[str, Any]
) -> None:
    """Spark keeps the task and has no slot for it: after a while its shards go to the others."""
    search = searching("node").start(backend={"rejoin_s": 2.0})
    search.wait_for_units(4)
    cluster.kill_worker(cluster.executors(application(cluster, search))[0].worker)
    try:
        found = search.result()
    finally:
        cluster.add_worker()
    same(found, undisturbed)
    assert found["losses"]
    assert found["redone"] <= 2


@pytest.mark.slow
def test_a_worker_that_joins(
    searching: Callable[..., Search], cluster: StandaloneCluster, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """The cluster gets a node in the middle of the run; from the next epoch on it has a shard."""
    hold = tmp_path / "hold"
    cluster.kill_worker(next(place for place, worker in enumerate(cluster.workers) if worker.process.poll() is None))
    search = searching("joins").start(hold=str(hold), backend={"num_workers": 2, "max_workers": 3})
    try:
        search.wait_for_units(2)
        hold.touch()
    finally:
        cluster.add_worker()
    search.wait_for_line("worker w2 on")
    hold.unlink()
    found = search.result()
    same(found, undisturbed)
    assert found["workers"] == ["w0", "w1", "w2"]
    assert found["losses"] == []
    assert found["redone"] == 0


@pytest.mark.slow
def test_an_executor_that_comes_late(
    searching: Callable[..., Search], cluster: StandaloneCluster, undisturbed: dict[str, Any]
) -> None:
    """Executors register one by one: a search at the start of a session is not refused for those on their way."""
    cluster.kill_worker(next(place for place, worker in enumerate(cluster.workers) if worker.process.poll() is None))
    search = searching("late").start(seconds=0.0)
    try:
        search.wait_for_line("waiting for executors to register")
    finally:
        cluster.add_worker()
    found = search.result()
    same(found, undisturbed)
    assert len(found["workers"]) == WORKERS


@pytest.mark.slow
def test_a_network_that_is_cut(searching: Callable[..., Search], undisturbed: dict[str, Any], tmp_path: Path) -> None:
    """Nothing arrives, and no connection is closed either: as when a switch loses power."""
    node = Node("cerebrocut", "198.51.100.1", "198.51.100.2")
    with ExitStack() as stack:
        try:
            stack.enter_context(node)
        except PermissionError as error:
            pytest.skip(f"a network to cut is a namespace, and this user may make none: {error}")
        python = Path(sys.executable)
        cluster = stack.enter_context(StandaloneCluster(tmp_path / "cluster", python, host=node.host))
        cluster.add_worker(node=node)
        search = searching("cut", on=cluster).start(backend={"rejoin_s": 2.0})
        search.wait_for_units(4)
        node.cut()
        found = search.result()
    same(found, undisturbed)
    assert any("has not called for" in loss for loss in found["losses"])


@pytest.mark.slow
def test_a_disk_that_fills_stops_the_run_and_room_resumes_it(
    searching: Callable[..., Search], undisturbed: dict[str, Any], small_disk: Callable[[str], Path]
) -> None:
    disk = small_disk("2m")
    search = searching("full", disk / "store").start()
    search.wait_for_units(4)
    filler = disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    with pytest.raises(OSError, match="No space"):
        fill()
    text = search.text()
    assert "STOPPED" in text
    assert "would not take the checkpoint" in text
    assert "the disk is full" in text
    filler.unlink()
    time.sleep(0.1)
    found = searching("full", disk / "store").start("resume", seconds=0.0).result()
    same(found, undisturbed)
