"""A network on Spark's tasks answers over HTTP as it does in this process."""

from __future__ import annotations

import io
import socket
from typing import TYPE_CHECKING

import numpy as np
import pytest
from http_client import HttpClient, infer_body
from PIL import Image

torch = pytest.importorskip("torch")

from optimizer.errors import InvalidArgumentError
from optimizer.serving import BatchingProfile
from udfs.serving import TensorSpec
from udfs.serving.http import HttpLimits, PortTakenError
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The machine of the tests may be busy with others: what is in time is not asked here.
SLO_MS = 60_000
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})


def image(seed: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def server_of(spark: SparkSession) -> Server:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(32, 4)).eval()
    inputs = [TensorSpec("x", "float32", (-1, 2))]
    double = Session(
        "double", model=lambda arrays: {"y": 2 * arrays["x"]}, inputs=inputs, profile=PROFILE, slo_ms=SLO_MS
    )
    cats = Session("cats", model=network, image_size=16, profile=PROFILE, slo_ms=SLO_MS)
    return Server(spark, backends=1).deploy(double).deploy(cats)


def test_three_images_over_http(spark: SparkSession) -> None:
    server = server_of(spark)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortTakenError):
        server.start(port=taken.getsockname()[1])
    with server.start(timeout_s=600, port=0, limits=HttpLimits(body_bytes=1 << 20)) as api:
        assert api.front_end is not None
        client = HttpClient(api.front_end.port, api.token)
        assert client.get("/v2/health/ready").status == 200
        assert client.get("/v2/models/cats").json["inputs"][0]["datatype"] == "BYTES"
        own = [api["cats"].execute(image(seed)).result(60) for seed in range(3)]
        for seed in range(3):
            reply = client.ask("POST", "/v2/models/cats/infer", image(seed), {"Content-Type": "image/png"})
            assert reply.status == 200, reply.body
            output = reply.json["outputs"][0]
            assert output["shape"] == [1, 4]
            np.testing.assert_allclose(output["data"], own[seed], rtol=1e-5, atol=1e-6)
        assert len({tuple(np.round(row, 6)) for row in own}) == 3
        doubled = client.infer("double", infer_body("FP32", [2, 2], [[1.5, 2], [3, -4]]))
        assert doubled.json["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [3, 4, 6, -8]}]
        corrupt = client.ask("POST", "/v2/models/cats/infer", image(0)[:80], {"Content-Type": "image/png"})
        assert corrupt.status == 400, corrupt.body
        assert HttpClient(api.front_end.port, None).get("/v2").status == 401
        large = HttpClient(api.front_end.port, api.token)
        assert large.ask("POST", "/v2/models/cats/infer", bytes(2 << 20), {"Content-Type": "image/png"}).status == 413
        gauges = {gauge["name"]: gauge["value"] for gauge in client.get("/status").json["gauges"]}
        assert gauges["backends"] == 1
        assert gauges["waiting"] == 0
        assert 0 < gauges["pace"] <= 20
        client.connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", api.front_end.port))


def test_front_ends_in_processes(spark: SparkSession) -> None:
    """They answer as a thread of this process does, and know a model as soon as it is deployed."""
    server = server_of(spark)
    with pytest.raises(InvalidArgumentError, match="front_ends must be 0 without a port, got 2"):
        server.start(front_ends=2)
    with pytest.raises(InvalidArgumentError, match="front_ends"):
        server.start(port=0, front_ends=-1)
    with pytest.raises(TypeError, match="front_ends_as"):
        server.start(port=0, front_ends=1, front_ends_as="tasks")  # type: ignore[call-arg]
    with server.start(timeout_s=600, port=0, front_ends=2) as api:
        assert api.front_end is not None
        clients = [HttpClient(api.front_end.port, api.token) for _ in range(6)]  # each is with one of them
        own = api["cats"].execute(image(1)).result(60)
        for client in clients:
            reply = client.ask("POST", "/v2/models/cats/infer", image(1), {"Content-Type": "image/png"})
            np.testing.assert_allclose(reply.json["outputs"][0]["data"], own, rtol=1e-5, atol=1e-6)
        inputs = [TensorSpec("x", "float32", (-1, 2))]
        api.deploy(
            Session(
                "triple", model=lambda arrays: {"y": 3 * arrays["x"]}, inputs=inputs, profile=PROFILE, slo_ms=SLO_MS
            )
        )
        for client in clients:
            tripled = client.infer("triple", infer_body("FP32", [1, 2], [[1.5, 2]]))
            assert tripled.json["outputs"][0]["data"] == [4.5, 6], "without another try"
        assert clients[0].get("/status").json["ready"] is True
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", api.front_end.port))
