"""A front end starts, says where it is, and ends."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from http_client import HttpClient, infer_body
from numpy_router import NumpyRouter

from optimizer.errors import InvalidArgumentError
from udfs.serving.http import FrontEnd, HttpLimits, PortTakenError

ROW = infer_body("FP32", [1, 3], [[1.0, 2.0, 3.0]])


def test_a_port_that_is_taken(front: FrontEnd, router: NumpyRouter) -> None:
    with pytest.raises(PortTakenError, match=f"port must be free, got {front.port} of 127.0.0.1"):
        FrontEnd(router, port=front.port).start()
    assert HttpClient(front.port, front.token).infer("linear", ROW).status == 200


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"port": 70_000}, "got 70000"),
        ({"port": "80"}, "got '80'"),
        ({"token": ""}, "token must be printable ASCII"),
        ({"token": "two words"}, "token must be printable ASCII"),
        ({"token": "é"}, "token must be printable ASCII"),
        ({"token": True}, "token must be printable ASCII"),
    ],
)
def test_arguments_that_cannot_be(router: NumpyRouter, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        FrontEnd(router, **arguments)


def test_limits_are_positive() -> None:
    for wrong in (0, -1, float("nan"), "1"):
        with pytest.raises(InvalidArgumentError, match="body_bytes must be a positive number"):
            HttpLimits(body_bytes=wrong)  # type: ignore[arg-type]


def test_a_host_that_is_not_here(router: NumpyRouter) -> None:
    with pytest.raises(InvalidArgumentError, match=r"got '203\.0\.113\.7' and"):
        FrontEnd(router, host="203.0.113.7", port=0).start()


def test_a_token_is_drawn_unless_it_is_switched_off(router: NumpyRouter) -> None:
    with FrontEnd(router, port=0) as one, FrontEnd(router, port=0, token=False) as other:
        assert one.token != other.token
        assert HttpClient(one.port, None).get("/v2").status == 401
        assert HttpClient(other.port, None).get("/v2").status == 200
    assert FrontEnd(router).token != one.token


def test_it_ends_with_its_block() -> None:
    router = NumpyRouter()
    threads = set(threading.enumerate())
    with FrontEnd(router, port=0) as front:
        client = HttpClient(front.port, front.token)
        assert client.infer("linear", ROW).status == 200
        assert front.url == f"http://127.0.0.1:{front.port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", front.port))
    left = [thread for thread in set(threading.enumerate()) - threads if thread.name.startswith("front-end")]
    for thread in left:
        thread.join(5)
    assert not any(thread.is_alive() for thread in left)
    front.close()
    with pytest.raises(InvalidArgumentError, match="Create another one"):
        front.start()
    client.connection.close()
    router.close()


def test_a_response_does_not_wait_for_acknowledgements(front: FrontEnd) -> None:
    """Its head and its body are two packets: on a connection with a delay, 40 ms lie between them."""
    with socket.socket() as accepted:
        assert not accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "the default, or nothing is tested"
    assert front._socket is not None
    assert front._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
