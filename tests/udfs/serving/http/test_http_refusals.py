"""Refused requests: each gets its status and a reason, and does not affect other requests."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import struct
import threading
import time
from typing import Any

import pytest
from http_client import HttpClient, infer_body
from numpy_router import SHORT_SLO_MS, NumpyRouter
from waiting import until

from udfs.serving.http import FrontEnd, HttpLimits

ROW = [[1.0, 2.0, 3.0]]
GOOD = infer_body("FP32", [1, 3], ROW)


def binary(
    size: int, content: bytes, datatype: str = "FP32", shape: Any = (1, 3), **headers: str
) -> tuple[bytes, dict]:
    document = infer_body(datatype, list(shape))
    document["inputs"][0]["parameters"] = {"binary_data_size": size}
    header = json.dumps(document).encode()
    return header + content, {"Inference-Header-Content-Length": str(len(header)), **headers}


@pytest.mark.parametrize("token", [None, "wrong", "", "é"])
@pytest.mark.parametrize("path", ["/v2", "/v2/health/live", "/v2/models/linear", "/metrics", "/status", "/nothing"])
def test_nothing_is_served_without_the_token(front: FrontEnd, path: str, token: str | None) -> None:
    stranger = HttpClient(front.port, None)
    reply = stranger.get(path) if token is None else stranger.get(path, Authorization=f"Bearer {token}")
    assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert "token" in reply.error
    assert str(front.token) not in reply.body.decode()


def test_other_schemes_do_not_pass(front: FrontEnd, router: NumpyRouter) -> None:
    asked = len(router.budgets)
    stranger = HttpClient(front.port, None)
    for said in (f"Basic {front.token}", str(front.token), f"Bearer {front.token}x", f"Bearer x {front.token}"):
        assert stranger.infer("linear", GOOD, Authorization=said).status == 401
    assert stranger.infer("linear", GOOD, Authorization=f"bearer {front.token}").status == 200
    assert len(router.budgets) == asked + 1


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "must be a JSON object"),
        ({}, "must have the inputs of model"),
        ({"inputs": {}}, "'inputs' of the request must be a list"),
        ({"inputs": [1]}, "an object with a name"),
        ({"inputs": [{"name": 3}]}, "an object with a name"),
        (infer_body("FP32", [1, 3], ROW, name="xx"), "must be one of 'x' FP32 [-1, 3], got 'xx'; did you mean 'x'?"),
        ({"inputs": GOOD["inputs"] * 2}, "twice"),
        (infer_body("FP64", [1, 3], ROW), "must be FP32, got FP64"),
        (infer_body("BF16", [1, 3], ROW), "must be FP32, got BF16"),
        (infer_body("FP32", [3], [1, 2, 3]), "must be [-1, 3] (-1: any size), got [3]"),
        (infer_body("FP32", [1, 4], [[1, 2, 3, 4]]), "must be [-1, 3] (-1: any size), got [1, 4]"),
        (infer_body("FP32", [0, 3], []), "must have values"),
        (infer_body("FP32", [-1, 3], ROW), "must be a list of sizes"),
        (infer_body("FP32", [True, 3], ROW), "must be a list of sizes"),
        (infer_body("FP32", [2, 3], [1, 2, 3]), "must have 6 values for shape [2, 3], got 3"),
        (infer_body("FP32", [1 << 40, 3], [1, 2, 3]), "got 3"),
        (infer_body("FP32", [2, 3], [[1, 2], [3, 4], [5, 6]]), "nested in the shape"),
        (infer_body("FP32", [2, 3], [[1, 2, 3], [4, 5]]), "nested in the shape"),
        (infer_body("FP32", [1, 3], [[[1], [2], [3]]]), "nested in the shape"),
        (infer_body("FP32", [1, 3], [1, [2], 3]), "got a list"),
        (infer_body("FP32", [1, 3], [1, None, 3]), "got null"),
        (infer_body("FP32", [1, 3], [1, True, 3]), "got a boolean"),
        (infer_body("FP32", [1, 3], ["1", 2, 3]), "got a text"),
        (infer_body("FP32", [1, 3], "123"), "must be a list, got a text"),
        (infer_body("FP32", [1, 3], [1, 2, 1e39]), "must fit FP32, got 1e+39"),
        (infer_body("FP32", [1, 3], [1, 2, 10**400]), "must fit FP32"),
        (infer_body("FP32", [1, 3]), "got neither"),
        ({**GOOD, "parameters": {"timeout": -1}}, "'timeout' of the request's parameters must be at least 0"),
        ({**GOOD, "parameters": {"timeout": 1.5}}, "'timeout' of the request's parameters must be an integer"),
        ({**GOOD, "parameters": {"timeout": 10**12}}, "at most 600000000 microseconds"),
        ({**GOOD, "parameters": {"sequence_id": 7}}, "sequence_id"),
        ({**GOOD, "parameters": []}, "'parameters' of the request must be an object"),
        ({**GOOD, "id": 7}, "'id' of the request must be a text"),
        ({**GOOD, "outputs": [{"name": "z"}]}, "got 'z'"),
        ({**GOOD, "outputs": [{"name": "\ud800"}]}, "output of model"),
        ({**GOOD, "outputs": [{"name": "y"}, {"name": "y"}]}, "twice"),
        ({**GOOD, "outputs": [{"name": "y", "parameters": {"classification": 3}}]}, "classification"),
        ({**GOOD, "outputs": [{"name": "y", "parameters": {"shared_memory_region": "r"}}]}, "shared_memory_region"),
        (
            b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, NaN, 2]}]}',
            "NaN is not valid JSON",
        ),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 1e400, 2]}]}', "must fit"),
        (b"", "must be JSON"),
        (b'{"inputs": [', "must be JSON"),
        (b"\xff\xfe\x00", "must be JSON in UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": ' + b"9" * 5000 + b"}", "must be JSON"),
        (b"\x80\x04\x95\x00\x00\x00.", "must be JSON"),
    ],
)
def test_what_is_wrong_is_said(client: HttpClient, document: Any, words: str) -> None:
    reply = client.infer("linear", document)
    assert reply.status == 400
    assert words in reply.error
    assert client.infer("linear", GOOD).status == 200


@pytest.mark.parametrize(
    ("model", "datatype", "data", "words"),
    [
        ("echo_uint8", "UINT8", [256], "must fit UINT8, got 256"),
        ("echo_int8", "INT8", [-129], "must fit INT8, got -129"),
        ("echo_int64", "INT64", [1 << 63], "must fit INT64"),
        ("echo_uint64", "UINT64", [10**3000], "must fit UINT64, got an integer of 9966 bits"),
        ("echo_int32", "INT32", [1.0], "a number with a fraction"),
        ("echo_bool", "BOOL", [1], "an integer"),
        ("echo_float16", "FP16", [65520.0], "must fit FP16, got 65520"),
    ],
)
def test_no_number_is_changed_to_fit(client: HttpClient, model: str, datatype: str, data: Any, words: str) -> None:
    reply = client.infer(model, infer_body(datatype, [1, 1], data))
    assert reply.status == 400
    assert words in reply.error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (binary(12, b"\0" * 8), "must be at most 8, the rest of the body, got 12"),
        (binary(8, b"\0" * 8), "must be 12 for FP32 of shape [1, 3], got 8"),
        (binary(12, b"\0" * 20), "got 8 more bytes"),
        (binary(-1, b""), "must be at least 0"),
        (binary(12, b"\0" * 12, **{"Inference-Header-Content-Length": "99999"}), "got 99999"),
        (binary(12, b"\0" * 12, **{"Inference-Header-Content-Length": "-5"}), "must be a number of bytes"),
        (binary(12, b"\0" * 12, **{"Inference-Header-Content-Length": "5"}), "must be JSON"),
        (binary(0, b"", shape=(1 << 60, 3)), "got 0."),
    ],
)
def test_binary_data_that_is_cut_off(client: HttpClient, body: tuple[bytes, dict[str, str]], words: str) -> None:
    reply = client.infer("linear", body[0], **body[1])
    assert reply.status == 400
    assert words in reply.error


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (struct.pack("<I", 9) + b"abc", "is 6 bytes short"),
        (struct.pack("<I", 3) + b"abcd", "got 1 bytes after them"),
        (b"abc", "got only 3 bytes"),
        (struct.pack("<I", 2) + b"\xff\xfe", "must be UTF-8"),
    ],
)
def test_texts_that_are_cut_off(client: HttpClient, content: bytes, words: str) -> None:
    body, headers = binary(len(content), content, "BYTES", (1,))
    reply = client.infer("echo_str", body, **headers)
    assert reply.status == 400
    assert words in reply.error


def test_binary_bool_is_zero_or_one(client: HttpClient) -> None:
    body, headers = binary(2, b"\x01\x02", "BOOL", (1, 2))
    assert "0 or 1, got 2" in client.infer("echo_bool", body, **headers).error


@pytest.mark.parametrize("path", ["nothing", "linear/versions/9", "linea"])
def test_unknown_models(client: HttpClient, path: str) -> None:
    assert client.infer(path, GOOD).status == 404
    assert client.get(f"/v2/models/{path}").status == 404
    reply = client.get(f"/v2/models/{path}/ready")
    assert reply.status == 404
    assert "must be one of 1, 2, got '9'" in reply.error or "is not deployed" in reply.error


def test_paths_and_methods_that_are_not_there(client: HttpClient) -> None:
    assert (client.get("/v2/nothing").status, client.get("/v2/models/linear/infer").status) == (404, 405)
    assert "Not Found" in client.get("/v2/nothing").error


def test_a_large_body_is_refused_and_the_client_reads_why(front: FrontEnd, client: HttpClient) -> None:
    large = bytes(6 << 20)
    reply = client.infer("linear", large)
    assert (reply.status, reply.error) == (413, "The body must have at most 1048576 bytes. Send smaller batches.")
    assert client.infer("linear", GOOD).status == 200
    # By its header alone, before a byte of it is sent.
    with socket.create_connection(("127.0.0.1", front.port), timeout=5) as raw:
        head = f"POST /v2/models/linear/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {front.token}\r\n"
        raw.sendall(f"{head}Content-Length: 100000000\r\n\r\n".encode())
        assert b" 413 " in raw.recv(4096)
    pieces = client.ask("POST", "/v2/models/linear/infer", iter([bytes(1 << 18)] * 8))
    assert pieces.status == 413
    bomb = gzip.compress(bytes(4 << 20))
    assert client.infer("linear", bomb, **{"Content-Encoding": "gzip"}).status == 413
    stranger = HttpClient(front.port, None)
    assert stranger.infer("linear", large, Connection="close").status == 401


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [("gzip", b"nonsense", 400), ("gzip", gzip.compress(b"{}" * 99)[:-9], 400), ("br", b"{}", 415)],
    ids=["nonsense", "cut", "unknown"],  # what gzip writes has the time in it
)
def test_a_body_that_does_not_unpack(client: HttpClient, coding: str, body: bytes, status: int) -> None:
    assert client.infer("linear", body, **{"Content-Encoding": coding}).status == status


def test_a_body_that_does_not_come(router: NumpyRouter) -> None:
    limits = HttpLimits(body_s=0.1)
    with (
        FrontEnd(router, port=0, limits=limits) as front,
        socket.create_connection(("127.0.0.1", front.port), timeout=5) as raw,
    ):
        head = f"POST /v2/models/linear/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {front.token}\r\n"
        raw.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert b" 408 " in raw.recv(4096)
        raw.close()


def test_what_is_no_http(front: FrontEnd) -> None:
    with socket.create_connection(("127.0.0.1", front.port), timeout=5) as raw:
        raw.sendall(b"\x80\x04\x95\x10\x00\x00\x00\r\n\r\n")
        assert b" 400 " in raw.recv(4096)


@pytest.mark.parametrize("model", ["fails", "crashes"])
def test_what_a_model_says_goes_to_the_log_alone(
    client: HttpClient, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        reply = client.infer(model, GOOD)
    assert reply.status == 500
    assert f"Model '{model}' version 1 failed" in reply.error
    assert "swordfish" not in reply.body.decode()
    assert "swordfish" in caplog.text


@pytest.mark.parametrize("model", ["forgets", "complex"])
def test_an_output_that_is_not_there_or_of_no_datatype(client: HttpClient, model: str) -> None:
    assert client.infer(model, GOOD).status == 500
    assert client.infer("linear", GOOD).status == 200


def test_an_overloaded_server_says_when_to_come_back(client: HttpClient) -> None:
    reply = client.infer("overloaded", GOOD)
    assert (reply.status, reply.headers["retry-after"]) == (503, "3")


def test_nan_is_given_as_binary_data_alone(client: HttpClient) -> None:
    reply = client.infer("nan", GOOD)
    assert reply.status == 406
    assert "NaN" in reply.error
    assert client.infer("nan", {**GOOD, "parameters": {"binary_data_output": True}}).status == 200


@pytest.mark.parametrize("timeout_ms", [50, None])
def test_no_answer_is_504_within_100_ms_of_the_deadline(
    client: HttpClient, router: NumpyRouter, timeout_ms: int | None
) -> None:
    router.waiting.clear()
    body = GOOD if timeout_ms is None else {**GOOD, "parameters": {"timeout": 1000 * timeout_ms}}
    began = time.monotonic()
    reply = client.infer("never", body)
    took_ms = 1000 * (time.monotonic() - began)
    assert reply.status == 504
    assert took_ms >= (timeout_ms or SHORT_SLO_MS)
    # 50 ms are the front end's own; the rest is for a machine that is busy.
    assert took_ms < (timeout_ms or SHORT_SLO_MS) + 1000
    until(router.waiting[1.0].cancelled)


def test_a_client_that_hangs_up_has_its_request_cancelled(front: FrontEnd, router: NumpyRouter) -> None:
    router.waiting.clear()
    body = json.dumps({**infer_body("FP32", [1, 3], [[7.0, 0, 0]]), "parameters": {"timeout": 20_000_000}}).encode()
    head = f"POST /v2/models/never/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {front.token}\r\n"
    with socket.create_connection(("127.0.0.1", front.port)) as raw:
        raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: 7.0 in router.waiting)
        assert not router.waiting[7.0].done()
    until(router.waiting[7.0].cancelled)


def test_a_request_that_the_server_drops(client: HttpClient, router: NumpyRouter) -> None:
    router.waiting.clear()
    threading.Thread(target=lambda: (until(lambda: 9.0 in router.waiting), router.waiting[9.0].cancel())).start()
    reply = client.infer("never", infer_body("FP32", [1, 3], [[9.0, 0, 0]]))
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")


def test_more_requests_than_are_allowed(front: FrontEnd, router: NumpyRouter, client: HttpClient) -> None:
    router.waiting.clear()
    open_sockets = []
    head = f"POST /v2/models/never/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {front.token}\r\n"
    for number in range(20):
        body = json.dumps(
            {**infer_body("FP32", [1, 3], [[100.0 + number, 0, 0]]), "parameters": {"timeout": 20_000_000}}
        ).encode()
        open_sockets.append(socket.create_connection(("127.0.0.1", front.port)))
        open_sockets[-1].sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    try:
        until(lambda: len(router.waiting) == 20)
        reply = client.infer("linear", GOOD)
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    finally:
        for raw in open_sockets:
            raw.close()
    until(lambda: all(future.cancelled() for future in router.waiting.values()))
    until(lambda: client.infer("linear", GOOD).status == 200)


def test_a_deadline_that_went_by_in_the_front_end_is_no_fault_of_the_client(
    client: HttpClient, router: NumpyRouter
) -> None:
    """A microsecond is over by the time that the body is parsed; a router takes no budget of 0."""
    asked = len(router.budgets)
    reply = client.infer("linear", {**GOOD, "parameters": {"timeout": 1}})
    assert reply.status == 504
    assert len(router.budgets) == asked
