"""The endpoints of the Open Inference Protocol, over a real socket."""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from http_client import infer_body
from numpy_router import SLO_MS
from PIL import Image

from optimizer import __version__

if TYPE_CHECKING:
    from http_client import HttpClient
    from numpy_router import NumpyRouter

    from udfs.serving.http import FrontEnd, FrontEndProcesses

ROWS = [[1.0, 2.0, 3.5], [0.1, -4.0, 0.0]]
SUMS = np.array(ROWS, np.float32).sum(1)


def encoded(kind: str = "PNG", size: tuple[int, int] = (7, 5)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, kind)
    return file.getvalue()


def test_health_and_metadata(client: HttpClient, router: NumpyRouter, front: FrontEnd | FrontEndProcesses) -> None:
    assert client.get("/v2/health/live").json == {"live": True}
    assert client.get("/v2/health/ready").json == {"ready": True}
    assert client.get("/v2").json["version"] == __version__
    assert "binary_tensor_data" in client.get("/v2").json["extensions"]
    assert client.get("/v2/models/linear").json == {
        "name": "linear",
        "versions": ["1", "2"],
        "platform": "opaque",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1]},
            {"name": "x2", "datatype": "FP32", "shape": [-1, 3]},
        ],
    }
    assert client.get("/v2/models/images/versions/1").json["inputs"][0]["datatype"] == "BYTES"
    assert client.get("/v2/models/linear/versions/2/ready").status == 200
    router.ready = False
    front.refresh()
    try:
        assert client.get("/v2/health/ready").status == 503
        assert client.get("/v2/health/live").status == 200
        assert client.get("/v2/models/linear/ready").status == 503
    finally:
        router.ready = True
        front.refresh()
    index = client.ask("POST", "/v2/repository/index").json
    assert {"name": "linear", "version": "2", "state": "READY", "reason": ""} in index


def test_the_last_version_answers_by_default(client: HttpClient) -> None:
    body = infer_body("FP32", [2, 3], ROWS, id="abc")
    for path, sign, version in (("linear", -1, "2"), ("linear/versions/1", 1, "1"), ("linear/versions/2", -1, "2")):
        reply = client.infer(path, body)
        assert reply.status == 200
        answer = reply.json
        assert (answer["model_name"], answer["model_version"], answer["id"]) == ("linear", version, "abc")
        assert answer["outputs"][0] == {
            "name": "y",
            "datatype": "FP32",
            "shape": [2],
            "data": (sign * SUMS).tolist(),
        }


@pytest.mark.parametrize("data", [ROWS, [value for row in ROWS for value in row]], ids=["nested", "flat"])
def test_outputs_are_chosen_one_by_one(client: HttpClient, data: Any) -> None:
    body = infer_body("FP32", [2, 3], data, outputs=[{"name": "x2", "parameters": {"binary_data": True}}])
    reply = client.infer("linear", body)
    length = int(reply.headers["inference-header-content-length"])
    document = json.loads(reply.body[:length])
    assert [output["name"] for output in document["outputs"]] == ["x2"]
    assert document["outputs"][0]["parameters"] == {"binary_data_size": 24}
    np.testing.assert_array_equal(np.frombuffer(reply.body[length:], "<f4").reshape(2, 3), 2 * np.float32(ROWS))


def test_a_function_says_by_its_answer_what_it_gives(client: HttpClient) -> None:
    body = infer_body("FP32", [2, 3], ROWS)
    assert [output["name"] for output in client.infer("opaque", body).json["outputs"]] == ["doubled", "count"]
    chosen = client.infer("opaque", {**body, "outputs": [{"name": "count"}]}).json["outputs"]
    assert chosen == [{"name": "count", "datatype": "INT64", "shape": [1], "data": [2]}]
    wrong = client.infer("opaque", {**body, "outputs": [{"name": "counts"}]})
    assert (wrong.status, wrong.error) == (400, "Outputs must be among doubled, count, got 'counts'.")


def test_binary_and_json_inputs_mix(client: HttpClient) -> None:
    x = np.float32(ROWS)
    document = {
        "inputs": [
            {"name": "z", "datatype": "INT32", "shape": [2], "data": [10, 20]},
            {"name": "x", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": x.nbytes}},
        ]
    }
    header = json.dumps(document).encode()
    # A length that is odd: the tensor starts where no float may lie, and is still read.
    header += b" " * (len(header) % 2 == 0)
    reply = client.infer("both", header + x.tobytes(), **{"Inference-Header-Content-Length": str(len(header))})
    assert reply.json["outputs"][0]["data"] == (SUMS + np.float32([10, 20])).tolist()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_body_is_unpacked(client: HttpClient, coding: str) -> None:
    body = json.dumps(infer_body("FP32", [2, 3], ROWS)).encode()
    packed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    assert client.infer("linear/versions/1", packed, **{"Content-Encoding": coding}).json["outputs"][0]["data"] == (
        SUMS.tolist()
    )


def test_images_are_passed_on_as_bytes(client: HttpClient) -> None:
    images = [encoded(), encoded("JPEG", (20, 30))]
    content = b"".join(struct.pack("<I", len(image)) + image for image in images)
    document = infer_body("BYTES", [2], name="image")
    document["inputs"][0]["parameters"] = {"binary_data_size": len(content)}
    header = json.dumps(document).encode()
    reply = client.infer("images", header + content, **{"Inference-Header-Content-Length": str(len(header))})
    assert reply.json["outputs"][0]["data"] == [7, 5, 20, 30]
    document = infer_body("BYTES", [1], [base64.b64encode(images[1]).decode()], name="image")
    document["inputs"][0]["parameters"] = {"content_type": "base64"}
    assert client.infer("images", document).json["outputs"][0]["data"] == [20, 30]


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_one_image_is_the_whole_body(client: HttpClient, router: NumpyRouter, kind: str) -> None:
    path = "/v2/models/images/infer"
    reply = client.ask("POST", f"{path}?timeout=9000000", encoded(kind.upper()), {"Content-Type": f"image/{kind}"})
    assert reply.json["outputs"] == [{"name": "size", "datatype": "INT64", "shape": [1, 2], "data": [7, 5]}]
    assert 500 < (router.budgets[-1] or 0) <= 9000
    wrong = client.ask("POST", "/v2/models/linear/infer", encoded(), {"Content-Type": "image/png"})
    assert wrong.status == 400
    assert "must have one encoded image as input" in wrong.error
    corrupt = client.ask("POST", path, encoded()[:20], {"Content-Type": "image/png"})
    assert (corrupt.status, corrupt.error) == (400, "row 0 is no image that can be decoded")


def test_the_timeout_is_in_microseconds(client: HttpClient, router: NumpyRouter) -> None:
    client.infer("linear", infer_body("FP32", [2, 3], ROWS, parameters={"timeout": 7_000_000}))
    assert 500 < (router.budgets[-1] or 0) <= 7000
    for parameters in ({}, {"timeout": 0}):
        client.infer("linear", infer_body("FP32", [2, 3], ROWS, parameters=parameters))
        assert SLO_MS / 2 < (router.budgets[-1] or 0) <= SLO_MS


def test_a_version_that_is_swapped_meanwhile_is_not_noticed(client: HttpClient, router: NumpyRouter) -> None:
    served = router._served
    router.gone.add("2")
    try:
        reply = client.infer("linear", infer_body("FP32", [2, 3], ROWS))
        assert (reply.status, reply.json["model_version"]) == (200, "1")
        assert reply.json["outputs"][0]["data"] == SUMS.tolist()
        router._served = served
        router.gone.add("2")
        assert client.infer("linear/versions/2", infer_body("FP32", [2, 3], ROWS)).status == 404
    finally:
        router._served = served
