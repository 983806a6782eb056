"""Python client: commands, the stream of events, and a server that is away for a while."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("httpx")

from live_server import TOKEN, http_client, live_server
from places import ROOT
from steered_runs import FakeRunner, order, origin, start

from cerebro_spark.steering import Client, ServerError, UnreachableServerError
from optimizer.errors import InvalidArgumentError
from optimizer.steering import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with live_server(tmp_path / "server.sqlite") as url:
        yield url


@pytest.fixture
def runner(server: str) -> Iterator[FakeRunner]:
    with http_client(server) as client:
        runner = FakeRunner(client)
        runner.begin("c000", "c001")
        runner.train("c000", 1, 0.4)
        yield runner


@pytest.fixture
def client(server: str) -> Client:
    return Client(server, TOKEN)


def test_the_client_reads_an_experiment(client: Client, runner: FakeRunner) -> None:
    assert [each["run"] for each in client.experiments()] == ["r1"]
    assert client.experiment("r1")["best"] == 0.4
    assert [each["trial"] for each in client.configurations("r1", sort="-finished")] == ["c000", "c001"]
    assert client.configurations("r1", owner="eve") == client.configurations("r1", status="paused") == []
    first = client.metrics("r1", "loss")
    assert first["curves"]["c000"]["values"] == [0.4]
    assert client.metrics("r1", since=first["next"])["curves"] == {}
    assert len(client.units("r1")["units"]) == 1


def test_each_method_sends_its_command(client: Client, runner: FakeRunner) -> None:
    client.pause("r1", "c000")
    client.resume("r1", "c000")
    client.prioritise("r1", "c000")
    client.stop("r1", "c001", revision=1)
    client.clone("r1", "c000", {"lr": 0.2}, epoch=1, epochs=2)
    client.add("r1", {"lr": 0.3}, epochs=4)
    client.end("r1")
    assert [each["command"] for each in runner.pending()] == [
        {"command": "pause", "trial": "c000"},
        {"command": "resume", "trial": "c000"},
        {"command": "prioritise", "trial": "c000"},
        {"command": "stop", "trial": "c001"},
        {"command": "clone", "trial": "c000", "params": {"lr": 0.2}, "epoch": 1, "epochs": 2},
        {"command": "add", "params": {"lr": 0.3}, "epochs": 4},
        {"command": "end"},
    ]
    client.withdraw(runner.pending()[0]["id"])
    assert [each["state"] for each in client.commands("r1")] == ["withdrawn"] + ["pending"] * 6
    assert client.effect("r1", Stop("c000"))["epochs"] == -2


def test_a_refusal_has_its_status_and_message(client: Client, runner: FakeRunner, server: str) -> None:
    client.stop("r1", "c000")
    with pytest.raises(ServerError, match="c000 has changed since revision 1") as caught:
        client.pause("r1", "c000", revision=1)
    assert (caught.value.status, caught.value.code) == (409, "conflict")
    with pytest.raises(ServerError, match="run must be an experiment of this server, got 'r1 &x'"):
        client.experiment("r1 &x")
    with pytest.raises(ServerError, match="need CEREBRO_TOKEN"):
        Client(server, "another token").experiments()


def test_a_client_waits_for_the_outcome(client: Client, runner: FakeRunner) -> None:
    sent = client.clone("r1", "c000", {"lr": 0.2})
    with pytest.raises(TimeoutError, match="is still pending after 0 s"):
        client.wait("r1", sent["id"], 0)
    source = {"trial": "c000", "epoch": 1}
    request = {"result": "added", "params": {"lr": 0.2}, "epochs": 3, "source": source, "origin": origin(sent)}
    runner.report("orders", order([request], [start("c002", source=source, reason="added by the user")]))
    settled = client.wait("r1", sent["id"], 20)
    assert (settled["state"], settled["result"]["trial"]) == ("applied", "c002")


def test_the_long_poll_of_a_runner_ends_with_a_command(client: Client, runner: FakeRunner) -> None:
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.extend(runner.pending(wait=60)), daemon=True)
    thread.start()
    client.stop("r1", "c000")
    thread.join(30)
    assert [each["command"] for each in replies] == [{"command": "stop", "trial": "c000"}]


def test_events_arrive_without_gaps_and_duplicates_over_restarts(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    database = tmp_path / "server.sqlite"
    with live_server(database) as url, http_client(url) as connection:
        port = urlsplit(url).port or 0
        runner = FakeRunner(connection)
        runner.begin("c000")

        def follow() -> None:
            for event in Client(url, TOKEN, patience_s=60).follow("r1"):
                events.append(event)
                if event["stream"] == "experiment" and event["document"]["state"] == "ended":
                    return

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        runner.train("c000", 1)
    # The server has stopped although a stream was open.
    for number in (2, 3):
        with live_server(database, port) as url, http_client(url) as connection:
            runner = FakeRunner(connection)
            runner.register()
            runner.train("c000", number)
    with live_server(database, port) as url, http_client(url) as connection:
        runner = FakeRunner(connection)
        runner.register()
        connection.post(f"{runner.place}/ended", json={})
        thread.join(60)
        assert not thread.is_alive()
    assert [each["id"] for each in events] == list(range(1, len(events) + 1))
    orders = [each["number"] for each in events if each["stream"] == "orders"]
    units = [each["number"] for each in events if each["stream"] == "units"]
    assert (orders, units) == ([0, 1, 2, 3], [0, 1, 2])


def test_a_stream_may_start_at_a_cursor(client: Client, runner: FakeRunner) -> None:
    cursor = client.experiment("r1")["cursor"]
    client.stop("r1", "c000")
    event = next(client.follow("r1", since=cursor))
    assert (event["id"], event["stream"], event["document"]["state"]) == (cursor + 1, "commands", "pending")


class Flaky(http.server.BaseHTTPRequestHandler):
    """Server that carries a request out, but loses its first answers."""

    keys: tuple[str, ...] = ()

    def do_POST(self) -> None:
        type(self).keys = (*self.keys, self.headers["Idempotency-Key"])
        self.rfile.read(int(self.headers["Content-Length"]))
        if len(self.keys) == 1:
            return  # the connection ends without an answer
        self.send_response(503 if len(self.keys) == 2 else 201)
        self.end_headers()
        self.wfile.write(json.dumps({"command": {"id": "1"}}).encode())

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", "http://example.org/")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def flaky() -> Iterator[str]:
    Flaky.keys = ()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_lost_answer_is_repeated_with_the_same_key(flaky: str) -> None:
    assert Client(flaky, TOKEN).stop("r1", "c000") == {"id": "1"}
    assert len(Flaky.keys) == 3 and len(set(Flaky.keys)) == 1 and Flaky.keys[0]


def test_the_token_follows_no_redirect(flaky: str) -> None:
    with pytest.raises(ServerError, match="server must answer as cerebro serve does, got status 302"):
        Client(flaky, TOKEN).experiments()


def test_a_server_that_is_away_is_an_error_with_a_remedy() -> None:
    with pytest.raises(UnreachableServerError, match="Start it with cerebro serve"):
        Client("http://127.0.0.1:9", TOKEN, patience_s=0.3).experiments()
    with pytest.raises(InvalidArgumentError, match="server must be a URL"):
        Client("file:///etc/passwd")


def test_the_printed_address_is_an_address_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_SERVER", "http://127.0.0.1:8765/prefix/?token=once")
    assert Client(token=TOKEN).server == "http://127.0.0.1:8765/prefix"


@pytest.mark.parametrize(
    "module",
    ["cerebro_spark.steering", "cerebro_spark.steering.server", "cerebro_spark.cli._serve", "cerebro_spark.cli._ls"],
)
def test_neither_client_nor_server_imports_spark_or_a_framework(module: str) -> None:
    heavy = {"pyspark", "torch", "numpy", "pandas", "tensorflow", "keras", "pyarrow", "mlflow"}
    code = f"import sys, {module}; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_of_many_users_at_once_one_command_is_accepted(server: str, runner: FakeRunner) -> None:
    outcomes: list[int] = []
    ready = threading.Barrier(8)

    def send() -> None:
        user = Client(server, TOKEN)
        ready.wait(30)
        try:
            user.stop("r1", "c001", revision=1)
        except ServerError as error:
            outcomes.append(error.status)
        else:
            outcomes.append(201)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == [201] + [409] * 7
    assert len(runner.pending()) == 1
