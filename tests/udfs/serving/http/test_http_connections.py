"""Connections of a front end: silent and slow ones end, many of them leave others served, idle ones are kept."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from http_client import HttpClient, infer_body
from numpy_router import NumpyRouter

from udfs.serving.http import FrontEnd, HttpLimits
from udfs.serving.http._connections import Connections

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 30.0
ROW = infer_body("FP32", [1, 3], [[1.0, 2.0, 3.0]])
HEAD = b"POST /v2/models/linear/infer HTTP/1.1\r\nHost: x\r\nX-A: "

STRANGERS = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
connections = []
for number in range(int(sys.argv[2])):
    try:
        connections.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 3))
        if number % 2:
            connections[-1].sendall(b"POST /v2 HTTP/1.1\\r\\nHost: x\\r\\nX-A: ")
    except OSError:
        pass
print("connected", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def router() -> Iterator[NumpyRouter]:
    router = NumpyRouter()
    yield router
    router.close()


def is_closed(raw: socket.socket) -> bool:
    """Wait for the end of a connection."""
    raw.settimeout(SECONDS)
    try:
        while raw.recv(4096):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def connected(front: FrontEnd) -> socket.socket:
    return socket.create_connection(("127.0.0.1", front.port), SECONDS)


@pytest.mark.parametrize("said", [b"", HEAD[:5], HEAD])
def test_a_head_has_to_be_complete_in_time(router: NumpyRouter, said: bytes) -> None:
    with FrontEnd(router, port=0, limits=HttpLimits(head_s=0.3)) as front, connected(front) as raw:
        raw.sendall(said)
        assert is_closed(raw)


def test_more_bytes_give_a_head_no_more_time(router: NumpyRouter) -> None:
    with FrontEnd(router, port=0, limits=HttpLimits(head_s=0.3)) as front, connected(front) as raw:
        raw.sendall(HEAD)
        end, is_open = time.monotonic() + SECONDS, True
        while is_open:
            assert time.monotonic() < end
            time.sleep(0.02)
            try:
                raw.sendall(b"a")
            except (BrokenPipeError, ConnectionResetError):
                is_open = False


def test_the_second_head_of_a_connection_has_as_much_time(router: NumpyRouter) -> None:
    with FrontEnd(router, port=0, limits=HttpLimits(head_s=0.3)) as front:
        client = HttpClient(front.port, front.token)
        assert client.infer("linear", ROW).status == 200
        raw = client.connection.sock
        time.sleep(0.6)
        assert client.infer("linear", ROW).status == 200
        assert client.connection.sock is raw, "an idle connection is no slow one"
        raw.sendall(HEAD)
        assert is_closed(raw)
        client.connection.close()


def test_a_refused_token_ends_the_connection(router: NumpyRouter) -> None:
    with FrontEnd(router, port=0) as front, connected(front) as raw:
        raw.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert is_closed(raw)
        assert HttpClient(front.port, "wrong").get("/v2").headers["connection"] == "close"


@pytest.mark.parametrize("keep_alive_s", [0.2, 75.0])
def test_idle_connections_are_kept_as_long_as_the_limit_says(router: NumpyRouter, keep_alive_s: float) -> None:
    with FrontEnd(router, port=0, limits=HttpLimits(keep_alive_s=keep_alive_s)) as front:
        assert front._server.config.timeout_keep_alive == keep_alive_s
        client = HttpClient(front.port, front.token)
        assert client.infer("linear", ROW).status == 200
        if keep_alive_s < 1:
            assert is_closed(client.connection.sock)
        client.connection.close()


def test_connections_are_kept_for_75_seconds_by_default() -> None:
    assert HttpLimits().keep_alive_s == 75.0


class Played:
    """A connection that a test says is idle."""

    def __init__(self, registry: Any) -> None:
        self.registry, self.is_idle, self.is_cut = registry, False, False

    def cut(self) -> None:
        self.is_cut = True
        self.registry.remove(self)


def test_further_connections_replace_strangers_then_idle_members() -> None:
    registry = Connections(HttpLimits(connections=16))
    made: list[Any] = [Played(registry) for _ in range(17)]
    strangers, members = made[:2], made[2:]
    for connection in strangers:
        registry.add(connection)
    for connection in members[:14]:
        registry.add(connection)
        registry.admit(connection)
    assert strangers[0].is_cut, "there may be two strangers"
    assert not strangers[1].is_cut
    members[3].is_idle = members[5].is_idle = True
    registry.admit(members[3])
    registry.add(members[14])
    assert [member.is_cut for member in members] == [False] * 15
    last: Any = Played(registry)
    registry.admit(members[14])
    registry.add(last)
    assert [place for place, member in enumerate(members) if member.is_cut] == [5], "the one idle for longest"


def test_connections_leave_half_of_the_descriptors() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert Connections(HttpLimits(connections=10 * soft)).most == soft // 2


@pytest.mark.slow
@pytest.mark.parametrize("count", [2000])
def test_silent_connections_leave_authenticated_clients_served(router: NumpyRouter, count: int) -> None:
    with FrontEnd(router, port=0) as front:
        client = HttpClient(front.port, front.token)
        assert client.infer("linear", ROW).status == 200
        command = [sys.executable, "-c", STRANGERS, str(front.port), str(count)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as strangers:
            assert strangers.stdout is not None
            statuses = [client.infer("linear", ROW).status for _ in range(50)]
            assert strangers.stdout.readline() == b"connected\n"
            for _ in range(20):
                statuses.append(client.infer("linear", ROW).status)
                with contextlib.closing(HttpClient(front.port, front.token).connection) as fresh:
                    newcomer = HttpClient(front.port, front.token)
                    newcomer.connection = fresh
                    statuses.append(newcomer.infer("linear", ROW).status)
            assert strangers.stdin is not None
            strangers.stdin.close()
        assert statuses == [200] * len(statuses)
        client.connection.close()
