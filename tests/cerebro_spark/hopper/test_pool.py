"""The pool of a session, with runs and processes that are played: who serves what, who is lost, and who is to blame."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from simulated_run import Player, World, one_call_at_a_time

from cerebro_spark import SparkBackend
from cerebro_spark.errors import BusyError
from cerebro_spark.hopper import _pool, _protocol
from cerebro_spark.hopper._pool import Member, Pool
from cerebro_spark.hopper._slots import slots_of, uses_slots
from udfs.hopper import Acknowledged, AskRuns, Close, NextUnit, PooledRun, Queued, Runs, ServiceEnded, Stop, Wait
from udfs.rpc import RefusedError


@dataclass
class Jobs:
    """Stands for the workers' Spark jobs."""

    events: list[str] = field(default_factory=list)

    def __call__(self, _spark: Any, _pool: Pool, workers: Any, *, restarts: int) -> Jobs:
        self.events.append(f"{[worker.worker for worker in workers if worker.spare]} spare, {restarts} restarts")
        return self

    def start(self) -> None:
        self.events.append("start")

    def stop(self) -> None:
        self.events.append("stop")


@dataclass
class Coordinator:
    """A run that notes what it hears."""

    heard: list[str] = field(default_factory=list)
    alive: tuple[str, ...] = ()
    events: list[str] = field(default_factory=list)
    blamed: int = 0
    over: bool = False
    shared: bool = False
    error: BaseException | None = None

    def share(self, *, shared: bool) -> None:
        self.shared = shared

    def lose(self, name: str, why: str) -> None:
        self.heard.append(f"lost {name}: {why}")

    def expect_loss(self, name: str) -> None:
        self.heard.append(f"expects to lose {name}")

    def give_up(self, name: str) -> None:
        self.heard.append(f"gave up {name}")

    def fail(self, error: BaseException) -> None:
        self.error = error

    def wait(self, _: float) -> bool:
        return self.over

    def abort(self) -> None:
        self.heard.append("abort")

    def settle(self, _: float) -> bool:
        return True

    def uncharged(self, _: str, *, works: bool) -> int:
        return self.blamed if works or self.events else 0


@dataclass
class SparkSession:
    """A Spark session that is never used."""

    conf: Any = field(default_factory=lambda: SimpleNamespace(get=lambda _, default=None: default, getAll={}))

    __hash__ = object.__hash__


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    monkeypatch.setattr(_pool, "_POLL_S", 0.05)
    monkeypatch.setattr(_pool, "_PATIENCE_S", 0.2)
    played = Jobs()
    monkeypatch.setattr(_pool, "WorkerJobs", played)
    return played


def backend_of(session: Any, **settings: Any) -> SparkBackend:
    return SparkBackend(session, **{"num_workers": 2, "threads": 1, "driver_host": "127.0.0.1"} | settings)


@dataclass
class Played:
    """A session with a pool and some runs."""

    backend: SparkBackend
    runs: list[Coordinator] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)

    def begins(self) -> Coordinator:
        coordinator: Any = Coordinator()
        member = Member(self.backend, coordinator)
        member.join()
        member.announce(f"at {len(self.runs)}")
        self.runs.append(coordinator)
        self.members.append(member)
        return coordinator

    @property
    def pool(self) -> Pool:
        pool = slots_of(self.backend.spark).pool
        assert pool is not None
        return pool

    def asks(self, worker: str = "w0", process: str = "p", after: int = 0) -> Any:
        return self.pool.answer(AskRuns(worker=worker, process=process, after=after))

    def ends(self, start: int, error: str = "", worker: str = "w0", process: str = "p") -> None:
        ended = ServiceEnded(worker=worker, process=process, start=start, error=error, cpu_seconds=2.5)
        self.pool.answer(ended)


@pytest.fixture
def played(jobs: Jobs) -> Played:
    del jobs
    return Played(backend_of(SparkSession()))


def test_the_first_run_starts_the_workers_and_the_last_ends_them(jobs: Jobs) -> None:
    played = Played(backend_of(SparkSession(), max_workers=3, restarts=7))
    first = played.begins()
    assert jobs.events == ["['w2'] spare, 7 restarts", "start"]
    assert not first.shared
    second = played.begins()
    assert first.shared
    assert second.shared
    played.members[0].leave()
    assert not second.shared
    assert jobs.events[2:] == []
    played.members[1].leave()
    assert jobs.events[2:] == ["stop"]
    assert slots_of(played.backend.spark).pool is None
    played.begins()
    assert jobs.events[3:] == ["['w2'] spare, 7 restarts", "start"]


def test_a_process_serves_each_run_once(played: Played) -> None:
    first = played.begins()
    reply = played.asks()
    assert reply == Runs((PooledRun("run 1", reply.runs[0].start, "at 0"),))
    last = reply.runs[0].start
    assert played.asks(after=last) == Runs(())
    played.begins()
    (second,) = played.asks(after=last).runs
    assert (second.name, second.location) == ("run 2", "at 1")
    first.over = True
    played.ends(last)
    assert played.members[0].cpu_seconds == {"w0": 2.5}
    assert played.asks(after=second.start) == Runs(())
    # A new process serves all that go on, and the former one is told to end.
    played.members[0].leave()
    assert [run.name for run in played.asks(process="q").runs] == ["run 2"]
    assert played.asks(process="p", after=second.start) == Close()
    with pytest.raises(RefusedError, match="'w7', which is no worker of this pool"):
        played.asks(worker="w7")


def test_who_asks_hears_at_once_of_a_run_and_of_the_end(
    played: Played, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pool, "_POLL_S", 60.0)
    replies: list[Any] = []

    def ask(after: int) -> threading.Thread:
        thread = threading.Thread(target=lambda: replies.append(played.asks(after=after)))
        thread.start()
        thread.join(0.1)
        return thread

    first, last = played.begins(), 0
    last = played.asks().runs[0].start
    asking = ask(last)
    second = played.begins()
    asking.join(10)
    last = replies.pop().runs[0].start
    asking = ask(last)
    # Both end at the same time: neither is alone as it leaves.
    first.settle = second.settle = lambda _: both.wait(10) >= 0  # type: ignore[method-assign, assignment]
    both = threading.Barrier(2)
    heard: list[Any] = []

    def stop() -> None:
        asking.join(2)
        heard.extend(replies)

    monkeypatch.setattr(jobs, "stop", stop)
    leaving = [threading.Thread(target=member.leave) for member in played.members]
    for thread in leaving:
        thread.start()
    for thread in leaving:
        thread.join(10)
    assert heard == [Close()], "before the jobs are ended that it is in"


def test_secrets_are_those_of_a_run(played: Played) -> None:
    credentials = [Member(played.backend, Coordinator()).join() for _ in range(2)]  # type: ignore[arg-type]
    assert len({each.secret for each in (*credentials, played.pool._credentials)}) == 3


def test_a_service_that_ends_by_an_error_is_started_again_in_its_process(jobs: Jobs) -> None:
    del jobs
    played = Played(backend_of(SparkSession(), restarts=1, num_workers=1))
    broken, sound = played.begins(), played.begins()
    first, other = played.asks().runs
    played.ends(first.start, "Traceback\nModuleNotFoundError: No module named 'mine'")
    assert broken.heard == ["lost w0: it served the run no longer: ModuleNotFoundError: No module named 'mine'"]
    (again,) = played.asks(after=other.start).runs
    assert (again.name, again.location) == (first.name, first.location)
    assert broken.error is None
    # What ended before is not what runs now.
    played.ends(first.start, "late")
    assert len(broken.heard) == 1
    played.ends(again.start, "Traceback\nModuleNotFoundError: No module named 'mine'")
    assert broken.heard[-1] == "gave up w0"
    assert "worker w0 cannot serve it: Traceback\nModuleNotFoundError" in str(broken.error)
    assert played.asks(after=again.start) == Runs(())
    assert sound.heard == []


def test_one_that_was_taken_for_lost_is_served_again(played: Played) -> None:
    run = played.begins()
    (first,) = played.asks().runs
    played.ends(first.start)
    assert run.heard == ["lost w0: it served the run no longer: it was told to stop"]
    assert len(played.asks(after=first.start).runs) == 1


def test_a_lost_process_is_lost_to_all_runs_and_blamed_once(played: Played) -> None:
    deadly, other = played.begins(), played.begins()
    last = played.asks().runs[-1].start
    assert played.pool.alive == ("w0",)
    played.pool.lose("w0", "killed")
    assert deadly.heard == other.heard == ["lost w0: killed"]
    assert played.pool.alive == ()
    assert played.asks(after=last) == Close()
    deadly.blamed = 2
    assert played.pool.uncharged("w0") == 0, "nothing works: the reason is not one configuration"
    other.events.append("a unit")
    assert played.pool.uncharged("w0") == 2
    deadly.over = True
    played.members[0].leave()
    assert played.pool.uncharged("w0") == 2, "it is gone, and its losses are still not the worker's"
    played.pool.give_up("w0")
    assert other.heard[-1] == "gave up w0"
    assert other.error is None
    late = played.begins()
    assert late.heard == ["gave up w0"]
    played.pool.give_up("w1")
    assert "worker w1 was lost too often" in str(late.error)


def test_a_run_that_ends_in_a_unit_waits_for_it_and_then_ends_its_process(played: Played) -> None:
    hung, other = played.begins(), played.begins()
    start = played.asks().runs[0].start
    hung.over = True
    begun = time.monotonic()
    played.members[0].leave()
    assert time.monotonic() - begun >= 0.2
    assert hung.heard == ["abort"]
    assert other.heard == []
    assert played.pool.uncharged("w0") == 1, "of the loss that comes, the worker is not to blame"
    quick = played.begins()
    start = played.asks(after=start).runs[-1].start
    quick.over = True
    threading.Timer(0.05, played.ends, (start,)).start()
    played.members[2].leave()
    assert quick.heard == []


def test_unlike_backends_are_refused(played: Played) -> None:
    played.begins()
    spark = played.backend.spark
    backend_of(spark, memory_bytes=1 << 30, rejoin_s=1.0).admit()
    for settings, said in (
        (
            {"num_workers": 1},
            r"have num_workers=2, max_workers=2, and this backend asks for num_workers=1, max_workers=1",
        ),
        ({"max_workers": 4}, r"have max_workers=2, and this backend asks for max_workers=4"),
        ({"threads": 2}, r"have threads=1, and .* threads=2"),
        ({"encrypt": True}, r"have encrypt=False, and .* encrypt=True"),
        ({"device": "cpu"}, r"have device='auto', and .* device='cpu'"),
        ({"restarts": 0}, r"have restarts=3, and .* restarts=0"),
    ):
        with pytest.raises(BusyError, match=said):
            backend_of(spark, **settings).admit()


def test_jobs_that_would_wait_for_the_pool_are_refused_and_it_waits_for_those_that_go_on(played: Played) -> None:
    spark, slots = played.backend.spark, slots_of(played.backend.spark)
    opened = threading.Event()

    def begin() -> None:
        played.begins()
        opened.set()

    thread = threading.Thread(target=begin)
    with uses_slots(spark):
        thread.start()
        assert not opened.wait(0.2)
        with uses_slots(spark):
            pass
        assert not opened.wait(0.2)
    assert opened.wait(10)
    thread.join()
    slots.count = 2
    with pytest.raises(BusyError, match=r"holds its task slots \(2 workers, 2 slots\)"), uses_slots(spark):
        pass
    slots.count = 3
    with uses_slots(spark):
        pass
    with uses_slots(spark):
        played.begins()
    for member in played.members:
        member.leave()
    with uses_slots(spark):
        # A slot is free beside the workers.
        played.begins()


def test_a_run_after_all_workers_were_lost_waits_for_the_next_pool(played: Played, jobs: Jobs) -> None:
    failed = played.begins()
    played.pool.fail(RuntimeError("too large"))
    assert str(failed.error) == "too large"
    thread = threading.Thread(target=played.begins)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    played.members[0].leave()
    thread.join(10)
    assert jobs.events[2:] == ["stop", "[] spare, 3 restarts", "start"]


# The run's side of a turn.


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Player:
    one_call_at_a_time(monkeypatch)
    world = World(1, 2, 1, validates=False, policy="fixed")
    for player in world.players:
        player.join()
    return world.players[0]


def test_out_of_turn_there_is_no_unit_and_news_is_told(player: Player) -> None:
    assert player.call(NextUnit, report=None, takes=False) == Wait(drop=(), holds=(0,))
    assert player.world.coordinator._state.assignments == []
    player.ask()
    other = player.world.players[1]
    # One configuration, which the other worker has or waits for.
    idle, busy = (player, other) if player.unit is None else (other, player)
    idle.ask()
    if busy.unit is None:
        busy.ask()
    assert busy.unit is not None
    busy.work()
    busy.call(NextUnit, report=busy.report, takes=False)
    assert player.world.coordinator._state.events


def test_out_of_turn_a_worker_waits_until_something_changes(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = player.world.players
    first.ask()
    second.ask()
    idle = next(each for each in (first, second) if each.unit is None)
    busy = next(each for each in (first, second) if each.unit is not None)
    monkeypatch.setattr(_protocol, "_POLL_S", 30.0)
    replies: list[Any] = []
    waiting = threading.Thread(target=lambda: replies.append(idle.call(NextUnit, report=None, takes=False)))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    busy.work()
    busy.call(NextUnit, report=busy.report, takes=False)
    waiting.join(10)
    assert [type(reply) for reply in replies] == [Wait]
    # In its turn it would wait here for the next unit, if no other run needed the turn.
    idle.unit, waiting = None, threading.Thread(target=idle.ask)
    player.world.coordinator.share(shared=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_worker_in_the_queue_is_not_taken_for_idle_and_hears_of_the_end(player: Player) -> None:
    world = player.world
    attached = world.coordinator._state.workers["w0"]
    attached.asked -= 1000.0
    assert player.call(Queued) == Acknowledged()
    assert world.coordinator._liveness.silent() == {}
    world.coordinator.lose("w0", "silent")
    assert player.call(Queued) == Stop()
    # One that has not said hello yet waits as well.
    player.attempt += 1
    assert player.call(Queued) == Acknowledged()
    world.coordinator.fail(RuntimeError("over"))
    assert player.call(Queued) == Stop()


def test_every_run_hears_that_a_workers_machine_is_about_to_end(played: Played) -> None:
    runs = [played.begins(), played.begins()]
    played.asks()
    notice = ServiceEnded(worker="w0", process="p", start=0, error="", cpu_seconds=0.0, interrupted=True)
    played.pool.answer(notice)
    played.pool.answer(notice)
    assert [run.heard for run in runs] == [["expects to lose w0"]] * 2
