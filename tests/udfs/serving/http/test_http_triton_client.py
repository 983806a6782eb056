"""NVIDIA's own client, unchanged."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

triton = pytest.importorskip("tritonclient.http", reason="pip install 'tritonclient[http]'")
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy_router import NumpyRouter

    from udfs.serving.http import FrontEnd

NUMBERS = ("bool", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)), "float16", "float32", "float64")


# New for each test: the client writes headers of its own into what it is given.
@pytest.fixture
def headers(front: FrontEnd) -> dict[str, str]:
    return {"Authorization": f"Bearer {front.token}"}


@pytest.fixture(scope="module")
def client(front: FrontEnd) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(f"127.0.0.1:{front.port}", network_timeout=30, connection_timeout=30)
    yield client
    client.close()


def given(name: str, array: np.ndarray, *, binary: bool) -> triton.InferInput:
    tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def test_it_finds_its_way(client: triton.InferenceServerClient, headers: dict[str, str], router: NumpyRouter) -> None:
    assert client.is_server_live(headers)
    assert client.is_server_ready(headers)
    assert client.is_model_ready("linear", "1", headers)
    assert not client.is_model_ready("linear", "7", headers)
    assert not client.is_server_live()
    assert client.get_server_metadata(headers)["name"] == "cerebro-spark"
    assert client.get_model_metadata("linear", headers=headers)["versions"] == ["1", "2"]
    index = client.get_model_repository_index(headers)
    assert [(entry["name"], entry["version"]) for entry in index] == [(m.name, m.version) for m in router.models]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_come_back(
    client: triton.InferenceServerClient, headers: dict[str, str], dtype: str, binary_in: bool, binary_out: bool | None
) -> None:
    sent = np.array([[0, 1, 3], [100, 2, 1]]).astype(dtype)
    outputs = None if binary_out is None else [triton.InferRequestedOutput("x", binary_data=binary_out)]
    result = client.infer(
        f"echo_{dtype}", [given("x", sent, binary=binary_in)], outputs=outputs, headers=headers, request_id="7"
    )
    back = result.as_numpy("x")
    assert back.dtype == sent.dtype
    np.testing.assert_array_equal(back, sent)
    assert result.get_response()["id"] == "7"


@pytest.mark.parametrize("binary", [True, False])
def test_texts_come_back(client: triton.InferenceServerClient, headers: dict[str, str], binary: bool) -> None:
    sent = np.array(["ä\0b", "", "漢" * 300], object)
    outputs = [triton.InferRequestedOutput("x", binary_data=binary)]
    result = client.infer("echo_str", [given("x", sent, binary=binary)], outputs=outputs, headers=headers)
    back = [text.decode() if isinstance(text, bytes) else text for text in result.as_numpy("x").tolist()]
    assert back == sent.tolist()


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_images(client: triton.InferenceServerClient, headers: dict[str, str], algorithm: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (9, 4)).save(file, "PNG")
    images = np.array([file.getvalue()] * 2, object)
    result = client.infer(
        "images",
        [given("image", images, binary=True)],
        headers=headers,
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
        timeout=9_000_000,
    )
    assert result.as_numpy("size").tolist() == [[9, 4], [9, 4]]


def test_nan_travels_as_binary_data(client: triton.InferenceServerClient, headers: dict[str, str]) -> None:
    sent = np.array([[np.nan, np.inf, -0.0]], np.float32)
    back = client.infer("echo_float32", [given("x", sent, binary=True)], headers=headers).as_numpy("x")
    assert back.tobytes() == sent.tobytes()


def test_errors_are_its_own(client: triton.InferenceServerClient, headers: dict[str, str]) -> None:
    tensor = given("x", np.ones((1, 3), np.float32), binary=True)
    with pytest.raises(InferenceServerException, match="deadline went by") as caught:
        client.infer("never", [tensor], headers=headers, timeout=20_000)
    assert caught.value.status() == "504"
    with pytest.raises(InferenceServerException, match="no model 'nothing' is deployed"):
        client.infer("nothing", [tensor], headers=headers)
    with pytest.raises(InferenceServerException, match="must have the token"):
        client.infer("linear", [tensor])


def test_requests_in_parallel(front: FrontEnd, headers: dict[str, str]) -> None:
    client = triton.InferenceServerClient(f"127.0.0.1:{front.port}", concurrency=4, network_timeout=30)
    rows = [np.full((1, 3), number, np.float32) for number in range(12)]
    waiting = [client.async_infer("linear", [given("x", row, binary=True)], headers=headers) for row in rows]
    assert [float(one.get_result().as_numpy("y")[0]) for one in waiting] == [-3.0 * number for number in range(12)]
    client.close()
