"""The jobs of long-lived workers, over a session that is played: lost ones start again, up to a limit."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pytest

from udfs.driver import WorkerJobs, _interruptible_jobs, _worker_jobs, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Worker:
    worker: str
    spare: bool = False
    pool: str = "pool"
    schema: str = "worker string"

    def __call__(self, batches: Any) -> Any:
        raise NotImplementedError


@dataclass
class Session:
    """Stands for Spark: a job is a call of ``job`` with the worker's name."""

    job: Callable[[str], list[str]]
    tags: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)

    def newSession(self) -> Self:
        return self

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeTag(self, tag: str) -> None:
        pass

    def interruptTag(self, tag: str) -> None:
        self.interrupted.append(tag)

    def interruptAll(self) -> None:
        self.interrupted.append("all")

    def range(self, *_: int) -> Self:
        return self

    def mapInArrow(self, worker: Worker, _schema: str) -> Any:
        @dataclass
        class Job:
            session: Session

            def collect(self) -> list[str]:
                return self.session.job(worker.worker)

        return Job(self)


@dataclass
class Played:
    """A supervisor that notes what it hears."""

    over: threading.Event = field(default_factory=threading.Event)
    lost: list[tuple[str, str]] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    error: BaseException | None = None
    complete: bool = True
    alive: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    not_its_own: int = 0
    calls: list[str] = field(default_factory=list)

    def lose(self, name: str, why: str) -> None:
        self.lost.append((name, why))

    def give_up(self, name: str) -> None:
        self.given_up.append(name)

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.over.set()

    def uncharged(self, name: str) -> int:
        assert name == "w0" or not self.not_its_own
        return self.not_its_own

    def wait(self, timeout_s: float) -> bool:
        return self.over.wait(timeout_s)

    def abort(self) -> None:
        self.calls.append("abort")

    def settle(self, timeout_s: float) -> bool:
        assert timeout_s > 0
        self.calls.append("settle")
        return True

    def look_after(self) -> tuple[str, ...]:
        silent, self.silent = self.silent, ()
        return silent


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_worker_jobs, "_LOOK_S", 0.01)
    monkeypatch.setattr(_worker_jobs, "_PAUSE_S", 0.0)
    monkeypatch.setattr(_worker_jobs, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(_worker_jobs, "is_remote", lambda: False)
    monkeypatch.setattr(_interruptible_jobs, "is_remote", lambda: False)
    monkeypatch.setattr(_interruptible_jobs, "InheritableThread", threading.Thread)


def jobs(session: Any, supervisor: Played, *workers: Worker, restarts: int = 2) -> WorkerJobs:
    return WorkerJobs(session, supervisor, workers, restarts=restarts)


def test_a_lost_worker_is_started_again() -> None:
    supervisor, started = Played(), []

    def job(name: str) -> list[str]:
        started.append(name)
        if len(started) == 1:
            raise RuntimeError("Caused by: java.io.IOException: the executor is gone\n\tat a.b.c")
        supervisor.over.set()
        return [name]

    run = jobs(Session(job), supervisor, Worker("w0"))
    run.start()
    assert supervisor.wait(10)
    run.stop()
    assert started == ["w0", "w0"]
    assert supervisor.lost == [("w0", "its Spark job ended: IOException: the executor is gone")]
    assert supervisor.given_up == []


def test_a_run_fails_once_every_worker_was_lost_too_often() -> None:
    supervisor = Played()

    def job(name: str) -> list[str]:
        raise RuntimeError(f"{name} is too large")

    run = jobs(Session(job), supervisor, Worker("w0"), Worker("w1"), restarts=1)
    run.start()
    assert supervisor.wait(10)
    run.stop()
    assert sorted(supervisor.given_up) == ["w0", "w1"]
    assert sorted(name for name, _ in supervisor.lost) == ["w0", "w0", "w1", "w1"]
    assert "is too large" in str(supervisor.error)


@pytest.mark.parametrize(("restarts", "not_its_own", "starts"), [(2, 0, 3), (2, 4, 7), (0, 0, 1), (0, 4, 1)])
def test_losses_that_are_not_its_own_leave_a_worker_its_restarts(restarts: int, not_its_own: int, starts: int) -> None:
    supervisor, started = Played(not_its_own=not_its_own), []

    def job(name: str) -> list[str]:
        started.append(name)
        raise RuntimeError("os._exit")

    run = jobs(Session(job), supervisor, Worker("w0"), restarts=restarts)
    run.start()
    assert supervisor.wait(10)
    run.stop()
    assert len(started) == starts


def test_spare_workers_wait_for_the_others() -> None:
    supervisor = Played(complete=False)
    started: list[str] = []

    def job(name: str) -> list[str]:
        started.append(name)
        if name == "w1":
            supervisor.over.set()
        supervisor.wait(10)
        return [name]

    run = jobs(Session(job), supervisor, Worker("w0"), Worker("w1", spare=True))
    run.start()
    assert not supervisor.wait(0.2)
    assert started == ["w0"]
    supervisor.complete = True
    assert supervisor.wait(10)
    run.stop()
    assert started == ["w0", "w1"]


@dataclass
class Ending(Session):
    """A job of it ends once it is interrupted."""

    ended: threading.Event = field(default_factory=threading.Event)

    def interruptTag(self, tag: str) -> None:
        super().interruptTag(tag)
        self.ended.set()

    def interruptAll(self) -> None:
        super().interruptAll()
        self.ended.set()


@pytest.mark.parametrize(("remote", "ended_by"), [(False, "all"), (True, "pool-w0-0")])
def test_the_job_of_a_silent_worker_is_ended(monkeypatch: pytest.MonkeyPatch, *, remote: bool, ended_by: str) -> None:
    """On classic Spark a tag is of one thread: no other can end a job by it."""
    monkeypatch.setattr(_worker_jobs, "is_remote", lambda: remote)
    supervisor = Played()
    started: list[str] = []

    def job(name: str) -> list[str]:
        started.append(name)
        if len(started) == 1:
            supervisor.silent = (name,)
            assert session.ended.wait(10)
            raise RuntimeError("cancelled")
        supervisor.over.set()
        return [name]

    session = Ending(job)
    run = jobs(session, supervisor, Worker("w0"))
    run.start()
    assert supervisor.wait(10)
    run.stop()
    assert session.interrupted[0] == ended_by
    assert len(set(session.tags)) == 2 * remote


def test_a_worker_that_does_not_stop_is_ended_by_spark_first() -> None:
    """Its process comes after that: a task whose process dies before it is cancelled is a stack trace of the JVM."""
    supervisor = Played(alive=("w0",))

    def job(_: str) -> list[str]:
        assert session.ended.wait(10)
        supervisor.calls.append("cancelled")
        raise RuntimeError("cancelled")

    session = Ending(job)
    run = jobs(session, supervisor, Worker("w0"))
    run.start()
    supervisor.over.set()
    run.stop()
    assert supervisor.calls == ["cancelled", "abort", "settle"]
    assert supervisor.lost == []


def test_an_interrupt_of_the_user_ends_the_jobs_and_waits_for_them() -> None:
    ended = threading.Event()

    @dataclass
    class Interrupted(Session):
        def interruptAll(self) -> None:
            ended.set()

    over: list[str] = []

    def work() -> None:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        assert ended.wait(10)
        time.sleep(0.2)
        over.append("work")

    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(Interrupted(lambda _: []), work)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, former)
    assert over == ["work"]


def test_a_supervisor_that_fails_ends_no_thread() -> None:
    """Its exceptions are logged: lost workers start again, and silent ones are found."""
    supervisor, started, looks = Played(), [], []

    def job(name: str) -> list[str]:
        started.append(name)
        if len(started) == 1:
            raise RuntimeError("lost")
        assert supervisor.wait(10)
        return [name]

    def lose(_name: str, _why: str) -> None:
        raise ZeroDivisionError("injected")

    def look_after() -> tuple[str, ...]:
        looks.append(1)
        if len(looks) == 1:
            raise ZeroDivisionError("injected")
        return ("w0",) if len(looks) == 2 else ()

    supervisor.lose, supervisor.look_after = lose, look_after  # type: ignore[method-assign]
    session = Session(job)
    run = jobs(session, supervisor, Worker("w0"))
    run.start()
    until = time.monotonic() + 10
    while len(started) < 2 or "all" not in session.interrupted:
        assert time.monotonic() < until
        time.sleep(0.01)
    supervisor.over.set()
    run.stop()
