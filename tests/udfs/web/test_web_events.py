"""Streams of events resume without gaps and duplicates, and end with the session and the server."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from fastapi import APIRouter, Request
from waiting import until
from web_shell import Shell, free_port, running

from udfs.web import Changes, EventSource, EventStream, Page, StreamEvent, _events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Log:
    """Events in memory, of which at most three are read at a time."""

    def __init__(self, changes: Changes) -> None:
        self.events: list[StreamEvent] = []
        self.changes = changes

    def append(self) -> None:
        number = len(self.events) + 1
        self.events.append(StreamEvent(number * 2, {"number": number, "text": "a\nb"}, "unit"))
        self.changes.notify()

    def since(self, position: int, limit: int) -> list[StreamEvent]:
        return [event for event in self.events if event.id > position][: min(limit, 3)]


class Service:
    def __init__(self, folder: Path) -> None:
        router = APIRouter()
        self.shell = Shell.create(folder, [Page("/events", "Events", router)], port=free_port())
        self.log = Log(self.shell.app.state.changes)
        source = EventSource(self.log.since, self.log.changes)

        @router.get("/events")
        async def events(request: Request) -> EventStream:
            return EventStream(request, source)

        @router.get("/poll")
        async def poll() -> bool:
            with self.log.changes.subscribe() as subscription:
                return await subscription.wait(600)

        self.shell.app.include_router(router)
        self.token = self.shell.accounts.set_program("reader", "viewer")

    @property
    def subscriptions(self) -> int:
        return len(self.log.changes._subscriptions)

    @contextmanager
    def open(self, path: str = "/events", **headers: str) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.shell.settings.port, timeout=30)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}", **headers})
        try:
            yield connection.getresponse()
        finally:
            connection.close()


def read_event(stream: http.client.HTTPResponse) -> tuple[int, str, dict]:
    """Read the next event, and skip comments."""
    lines: list[str] = []
    while True:
        line = stream.readline().decode()
        assert line, "the stream ended"
        if line != "\n":
            lines.append(line.rstrip("\n"))
        elif lines[0].startswith(":"):
            lines = []
        else:
            fields = dict(each.split(": ", 1) for each in lines)
            return int(fields["id"]), fields["event"], json.loads(fields["data"])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    with running(service.shell.app, service.shell.settings):
        yield service


def test_a_stream_resumes_without_gaps_and_duplicates(service: Service) -> None:
    writer = threading.Thread(target=lambda: [service.log.append() for _ in range(500)])
    seen: list[int] = []
    writer.start()
    while len(seen) < 500:
        headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
        with service.open(**headers) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert (stream.headers["cache-control"], stream.headers["x-accel-buffering"]) == ("no-store", "no")
            for _ in range(min(37, 500 - len(seen))):
                number, name, data = read_event(stream)
                assert (name, data) == ("unit", {"number": number // 2, "text": "a\nb"})
                seen.append(number)
    writer.join()
    assert seen == list(range(2, 1001, 2))


def test_an_event_reaches_a_stream_that_waits(service: Service) -> None:
    with service.open() as first, service.open() as second:
        for number in range(20):
            service.log.append()
            assert [read_event(stream)[0] for stream in (first, second)] == [2 * number + 2] * 2


@pytest.mark.parametrize(
    ("path", "headers", "first"),
    [
        ("/events", {}, 2),
        ("/events?since=4", {}, 6),
        # The browser repeats the address of the page when it reconnects; its position is later.
        ("/events?since=4", {"Last-Event-ID": "8"}, 10),
        ("/events?since=5", {"Last-Event-ID": ""}, 6),
    ],
)
def test_the_position_of_a_stream(service: Service, path: str, headers: dict[str, str], first: int) -> None:
    for _ in range(6):
        service.log.append()
    with service.open(path, **headers) as stream:
        assert read_event(stream)[0] == first


@pytest.mark.parametrize("position", ["x", "-1", "1e3", "٣", "1.5"])
def test_a_position_that_is_no_number(service: Service, position: str) -> None:
    with service.open(f"/events?since={quote(position)}") as reply:
        assert reply.status == 422
        assert json.loads(reply.read())["error"]["code"] == "since"


def test_a_quiet_stream_sends_comments(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events, "HEARTBEAT_S", 0.01)
    with service.open() as stream:
        lines = [stream.readline() for _ in range(8)]
    assert lines == [b": open\n", b"\n", *[b": heartbeat\n", b"\n"] * 3]


def test_a_stream_ends_with_its_session(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events, "HEARTBEAT_S", 0.01)
    with service.open() as stream:
        assert stream.readline() == b": open\n"
        service.shell.accounts.remove("reader")
        stream.read()  # it ends, and is complete: http.client raises IncompleteRead otherwise
    with service.open() as reply:
        assert reply.status == 401


def test_a_browser_that_goes_away_leaves_nothing(service: Service) -> None:
    with service.open() as stream:
        assert stream.readline() == b": open\n"
        assert service.subscriptions == 1
    until(lambda: service.subscriptions == 0)


def test_the_server_stops_with_open_streams(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(tmp_path)
    with running(service.shell.app, service.shell.settings) as server:  # noqa: SIM117 - the streams close first
        with service.open() as stream, service.open() as other:
            service.log.append()
            assert read_event(stream)[0] == read_event(other)[0] == 2
            polls: list[bytes] = []
            poll = threading.Thread(target=lambda: polls.append(read_all(service)))
            poll.start()
            until(lambda: service.subscriptions == 3)
            server.should_exit = True
            assert stream.read() == other.read() == b""  # complete: http.client raises IncompleteRead otherwise
            poll.join(30)
            assert polls == [b"true"]
    assert "Cancel" not in caplog.text
    assert service.subscriptions == 0


def read_all(service: Service) -> bytes:
    with service.open("/poll") as reply:
        return reply.read()


def test_a_change_between_reading_and_waiting_is_not_missed() -> None:
    async def wait() -> bool:
        changes = Changes()
        with changes.subscribe() as subscription:
            subscription.clear()
            thread = threading.Thread(target=changes.notify)
            thread.start()
            thread.join()
            return await subscription.wait(30)

    assert asyncio.run(wait())


def test_a_writer_outlives_the_loop_of_a_stream() -> None:
    changes = Changes()
    loop = asyncio.new_event_loop()
    subscription = changes.subscribe()

    async def subscribe() -> None:
        subscription.__enter__()

    loop.run_until_complete(subscribe())
    loop.close()
    changes.notify()


def test_a_wait_that_nothing_ends() -> None:
    async def wait() -> tuple[bool, bool]:
        changes = Changes()
        with changes.subscribe() as subscription:
            first = await subscription.wait(0.01)
            changes.close()
            subscription.clear()
            return first, await subscription.wait(600)

    assert asyncio.run(wait()) == (False, True)


def test_a_number_that_browsers_cannot_read() -> None:
    event = StreamEvent(1, {"losses": [float("nan"), float("-inf"), 0.5]})
    assert event.text == 'id: 1\nevent: message\ndata: {"losses": [null, null, 0.5]}\n\n'
