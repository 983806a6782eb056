"""The runner beside a server that fails in every way: documents and commands arrive once, and no search waits."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from played_server import TOKEN, PlayedServer

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.steering.runner import Connection, Runner, _backoff, _runner, connect
from cerebro_spark.steering.runner._journal_documents import JournalDocuments
from udfs.documents import write_document
from udfs.store import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from optimizer.procedures import Origin

SETTINGS = {"name": "run", "store": "file:///there", "metric": "loss", "mode": "min", "epochs": 3, "workers": 2}


class Search:
    """Search that lists what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def add(self, params: Any, *, epochs: int | None, origin: Origin) -> str:
        self.calls.append(("add", dict(params), epochs, origin.command, origin.user, origin.at))
        return f"c{len(self.calls):03d}"

    def clone(self, trial_id: str, params: Any, *, epoch: int | None, epochs: int | None, origin: Origin) -> str:
        self.calls.append(("clone", trial_id, dict(params), epoch, epochs, origin.command))
        return "c009"

    def stop(self, trial_id: str, *, origin: Origin) -> None:
        if trial_id == "c404":
            raise InvalidArgumentError("trial_id must name a configuration of the run, got 'c404'")
        self.calls.append(("stop", trial_id, origin.command))

    def pause(self, trial_id: str) -> None:
        self.calls.append(("pause", trial_id))

    def resume(self, trial_id: str) -> None:
        self.calls.append(("resume", trial_id))

    def prioritise(self, trial_id: str) -> None:
        raise ZeroDivisionError(trial_id)

    def end(self, *, origin: Origin) -> None:
        self.calls.append(("end", origin.command))


class World:
    """Store with a journal, a server, and runners between them."""

    def __init__(self, folder: Path, server: PlayedServer) -> None:
        self.store = Store.from_uri(str(folder))
        self.server = server
        self.search = Search()
        self.written: dict[str, list[Any]] = {"orders": [], "units": []}

    def runner(self, token: str = TOKEN) -> Runner:
        connection = Connection(self.server.address, token, 0.0)
        runner = Runner(connection, JournalDocuments(self.store, "run"), "run", SETTINGS, self.search)
        runner.start()
        return runner

    def write(self, count: int) -> None:
        for _ in range(count):
            number = len(self.written["orders"])
            order = {"results": [], "idle": number, "decisions": []}
            write_document(self.store, order, "runs", "run", "orders", f"order-{number:06d}.json")
            write_document(self.store, [{"unit": number}], "runs", "run", "events", f"part-{number:06d}.json")
            self.written["orders"].append(order)
            self.written["units"].append([{"unit": number}])

    @property
    def is_complete(self) -> bool:
        return self.server.streams == self.written


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_LOOK_S": 0.02, "_LAST_S": 0.05, "_WAIT_S": 1}.items():
        monkeypatch.setattr(_runner, name, value)
    monkeypatch.setattr(_backoff, "_FIRST_S", 0.01)
    monkeypatch.setattr(_backoff, "_LONGEST_S", 0.1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    server = PlayedServer()
    with server.running():
        yield World(tmp_path, server)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_documents_and_commands_arrive_once_and_in_order_through_a_bad_network(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    server = PlayedServer(lambda: chance.choice(["", "", "", "drop", "forget", "busy"]))
    world = World(tmp_path, server)
    with server.running():
        runner = world.runner()
        sent = []
        for number in range(12):
            world.write(chance.randrange(4))
            for _ in range(chance.randrange(3)):
                ident = f"{len(sent):02d}"
                sent.append(("stop", f"c{number:03d}", ident) if chance.random() < 0.5 else ("pause", f"c{ident}"))
                server.command(ident, {"command": sent[-1][0], "trial": sent[-1][1]})
            if number in {4, 8}:
                server.go_away(0.3)
            time.sleep(0.02)
        server.until(lambda: "pending" not in server.states().values())
        world.write(3)
        runner.close()
    assert world.is_complete
    assert not server.problems
    assert world.search.calls == sent
    assert set(server.states().values()) <= {"applied"}
    assert server.ended
    assert set(server.ended) == {""}
    assert {name: server.settings[name] for name in SETTINGS} == SETTINGS


def test_commands_become_calls_and_their_outcomes_are_told(world: World) -> None:
    documents: list[dict[str, Any]] = [
        {"command": "add", "params": {"lr": 0.1, "widths": {"$tuple": [8, 4]}}, "epochs": 2},
        {"command": "clone", "trial": "c000", "params": {"lr": 0.2}, "epoch": 1, "epochs": None},
        {"command": "stop", "trial": "c404"},
        {"command": "prioritise", "trial": "c000"},
        {"command": "fork", "trial": "c000"},
        {"command": "resume", "trial": "c001"},
        {"command": "end"},
    ]
    runner = world.runner()
    for number, document in enumerate(documents):
        world.server.command(f"id{number}", document)
    world.server.until(lambda: "pending" not in world.server.states().values())
    runner.close()
    assert world.search.calls == [
        ("add", {"lr": 0.1, "widths": (8, 4)}, 2, "id0", "ada", "2025-11-29T21:00:00.500000+00:00"),
        ("clone", "c000", {"lr": 0.2}, 1, None, "id1"),
        ("resume", "c001"),
        ("end", "id6"),
    ]
    results = {ident: record["result"] for ident, record in world.server.commands.items()}
    assert results["id0"] == {"state": "applied", "message": "", "trial": "c001"}
    assert results["id1"] == {"state": "applied", "message": "", "trial": "c009"}
    assert results["id2"]["state"] == results["id3"]["state"] == results["id4"]["state"] == "refused"
    assert "got 'c404'" in results["id2"]["message"]
    assert results["id3"]["message"] == "ZeroDivisionError: c000"
    assert "must be one of add, clone" in results["id4"]["message"]
    assert results["id5"]["trial"] == "c001"


def test_a_search_does_not_wait_for_its_server_and_names_what_is_left(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.stop()
    runner = world.runner()
    world.write(5)
    with caplog.at_level(logging.WARNING):
        runner.close(limit_s=0.3)
    goes_on, left = (record.getMessage() for record in caplog.records)
    assert "run run goes on without its server, and is reported later: server must answer" in goes_on
    assert "10 documents and the end of the search could not be delivered" in left
    assert TOKEN not in caplog.text
    world.server.start()
    world.server.until(lambda: bool(world.server.ended))
    assert world.is_complete, "the thread goes on as long as the process"


def test_a_warning_counts_what_the_server_does_not_have(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may be away as well, which is no failure of the search."""
    runner = world.runner()
    world.write(5)
    world.server.until(lambda: world.is_complete)
    world.server.stop()
    world.write(2)
    with caplog.at_level(logging.WARNING):
        runner.close(limit_s=0.3)
        monkeypatch.setattr(JournalDocuments, "count", _no_store)
        runner.close(limit_s=0.0)
    lines = [record.getMessage() for record in caplog.records if "could not be delivered" in record.getMessage()]
    assert ["run run: 4 documents and" in lines[0], "run run: the last documents and" in lines[1]] == [True, True]
    world.server.start()


def _no_store(*_: object) -> int:
    raise StoreError("the store is away")


def test_a_server_that_lost_its_database_gets_everything_again(world: World) -> None:
    runner = world.runner()
    world.write(3)
    world.server.until(lambda: world.is_complete)
    world.server.forget_everything()
    world.server.until(lambda: world.is_complete)
    runner.close("ValueError: no rows")
    assert world.server.ended == ["ValueError: no rows"]


def test_errors_of_configurations_follow_their_ends(world: World) -> None:
    ended = {"results": [{"result": "ended", "trial": "c007", "status": "raised"}], "idle": 0, "decisions": []}
    trial = {"params": {}, "status": "raised", "traceback": "ZeroDivisionError: in line 3", "history": []}
    write_document(world.store, trial, "runs", "run", "trials", "c007.json")
    write_document(world.store, ended, "runs", "run", "orders", "order-000000.json")
    runner = world.runner()
    world.server.until(lambda: bool(world.server.tracebacks))
    world.server.forget_everything()
    runner.close()
    assert world.server.tracebacks == {"c007": "ZeroDivisionError: in line 3"}


def test_a_second_process_goes_on_where_the_first_one_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(450)
    world.runner().close()
    first = dict(world.server.settings)
    monkeypatch.setattr(_runner, "_SESSION", "another")
    world.write(2)
    world.runner().close()
    assert world.is_complete
    assert first["session"] != world.server.settings["session"] == "another"
    assert first["fingerprint"] == world.server.settings["fingerprint"] != ""


def test_documents_are_sent_in_messages_of_limited_size(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    request = Connection.request

    def counted(connection: Connection, method: str, path: str, body: Any = None, **others: Any) -> Any:
        sizes.append(len((body or {}).get("documents", ())))
        return request(connection, method, path, body, **others)

    monkeypatch.setattr(Connection, "request", counted)
    world.write(1)
    large = {"results": ["x" * 400_000], "idle": 0, "decisions": []}
    for number in (1, 2, 3):
        write_document(world.store, large, "runs", "run", "orders", f"order-{number:06d}.json")
        world.written["orders"].append(large)
    world.runner().close()
    assert world.is_complete
    assert max(sizes) == 2


def test_a_refused_runner_says_why_once_and_the_search_goes_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.write(1)
    with caplog.at_level(logging.WARNING):
        runner = world.runner(token="wrong")
        time.sleep(0.5)
        runner.close(limit_s=0.1)
    assert len(caplog.records) == 2
    assert "sign in Programs on another machine need CEREBRO_TOKEN" in caplog.records[0].getMessage()


def test_files_of_earlier_releases_are_no_documents(world: World) -> None:
    """Their events were a file per epoch."""
    write_document(world.store, [], "runs", "run", "events", "epoch-0000.json")
    world.write(1)
    world.runner().close()
    assert world.is_complete


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8765", "ftp://there", "http://", "", "http://ada:secret@there:1", None, "http:///path"]
)
def test_an_address_is_an_address(address: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="server must be a URL such as"):
        connect(address)


def test_the_token_of_a_browser_is_no_part_of_the_address() -> None:
    assert connect("https://there/hub/?token=once").server == "https://there/hub"


def test_a_redirect_takes_the_token_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[str] = []
    target = PlayedServer()
    monkeypatch.setattr(PlayedServer, "answer", lambda server, request: _redirect(server, request, target, caught))
    source = PlayedServer()
    with target.running(), source.running(), pytest.raises(Exception, match="got status 302"):
        Connection(source.address, TOKEN, 0.0).request("GET", "runner/experiments/run/commands?wait=1")
    assert caught == ["source"]


def _redirect(server: PlayedServer, request: Any, target: PlayedServer, caught: list[str]) -> None:
    caught.append("target" if server is target else "source")
    request.send_response(302)
    request.send_header("Location", target.address)
    request.end_headers()


def test_threads_of_a_closed_runner_end(world: World) -> None:
    before = set(threading.enumerate())
    runner = world.runner()
    runner.close()
    _until(lambda: not {each for each in threading.enumerate() if each.name.endswith("of run")} - before)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_delays_leave_the_generator_of_seeded_programs_alone() -> None:
    state = random.getstate()
    assert 0.005 <= _backoff.Backoff().next() <= 0.01
    assert random.getstate() == state
