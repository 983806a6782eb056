"""Published weights: fetched from a server on loopback by the code that fetches them from their publishers."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from real_inputs import mobilenet_v2_weights
from typer.testing import CliRunner

from udfs.roster._published_weights import PUBLISHED
from vista_spark import roster
from vista_spark.cli import app
from vista_spark.errors import InvalidArgumentError, UnknownModelError, WeightsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "mobilenet_v2-b0353104.pth"
KERAS_FILE = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.h5"


@contextmanager
def served(files: dict[str, bytes], headers: dict[str, str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Serve files while the block runs; give the address, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = files.get(self.path.rpartition("/")[2])
            self.send_response(404 if content is None else 200)
            for name, value in ({"Content-Length": str(len(content or b""))} | (headers or {})).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/models/", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_real_weights_pass_their_real_digest_and_are_fetched_once() -> None:
    content = mobilenet_v2_weights().read_bytes()
    with served({FILE: content}) as (address, asked):
        with pytest.raises(WeightsError, match="vista weights fetch mobilenet_v2"):
            roster.fetched_weights("mobilenet_v2")
        seen: list[tuple[int, int | None]] = []
        path = roster.fetch_weights("mobilenet_v2", mirror=address, on_progress=lambda *at: seen.append(at))
        assert seen[-1] == (len(content), len(content))
        assert roster.fetch_weights("mobilenet_v2", mirror=address) == path == roster.fetched_weights("mobilenet_v2")
        assert asked == [f"/models/{FILE}"]
        assert path.read_bytes() == content
        path.write_bytes(content[:-1])  # damaged since
        roster.fetch_weights("mobilenet_v2", mirror=address)
        assert (len(asked), path.read_bytes()) == (2, content)
    network = roster.load("mobilenet_v2", path)
    assert not network.training


def test_another_file_under_the_name_is_refused_and_not_kept(tmp_path: Path) -> None:
    with (
        served({FILE: b"<html>sign in</html>"}) as (address, _),
        pytest.raises(WeightsError, match=r"not the published file: its sha256 is \w{64}, not b0353104\.\.\."),
    ):
        roster.fetch_weights("mobilenet_v2", mirror=address)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_half_a_file_is_refused_by_its_length(tmp_path: Path) -> None:
    """Keras publishes no digest of this one: without a look at the length, half of it would stay."""
    with (
        served({KERAS_FILE: b"half"}, {"Content-Length": "8"}) as (address, _),
        pytest.raises(WeightsError, match="cannot be fetched"),
    ):
        roster.fetch_weights("keras_mobilenet_v2", mirror=address)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_the_servers_md5_stands_in_for_a_digest_that_is_not_published(tmp_path: Path) -> None:
    def header(content: bytes) -> dict[str, str]:
        digest = hashlib.md5(content, usedforsecurity=False).digest()
        return {"x-goog-hash": f"crc32c=AAAAAA==, md5={base64.b64encode(digest).decode()}"}

    with served({KERAS_FILE: b"weights"}, header(b"weights")) as (address, _):
        assert roster.fetch_weights("keras_mobilenet_v2", tmp_path, mirror=address).read_bytes() == b"weights"
    with (
        served({KERAS_FILE: b"other"}, header(b"weights")) as (address, _),
        pytest.raises(WeightsError, match="its md5 is"),
    ):
        roster.fetch_weights("keras_mobilenet_v2", tmp_path / "new", mirror=address)


def test_without_a_network_it_says_what_to_do() -> None:
    with served({}) as (address, _):
        pass  # no server listens at the address any more
    with pytest.raises(WeightsError) as raised:
        roster.fetch_weights("resnet18", mirror=address)
    for words in (PUBLISHED["resnet18"].url, "sha256 begins with f37072fd", "--weights", "https_proxy", "--mirror"):
        assert words in str(raised.value)
    with served({}) as (address, _), pytest.raises(WeightsError, match="HTTP 404"):
        roster.fetch_weights("resnet18", mirror=address)


def test_what_nobody_publishes() -> None:
    with pytest.raises(UnknownModelError, match="did you mean 'resnet18'"):
        roster.fetch_weights("resnet81")
    # Keras's file fits the roster's EfficientNet, and would give other numbers in silence.
    with pytest.raises(InvalidArgumentError, match=r"EfficientNetB0\(weights=\"imagenet\"\)"):
        roster.fetch_weights("keras_efficientnet_b0")
    for name in roster.names():
        if roster.is_shipped(name) and not name.startswith(("keras_efficientnet_b0", "minilm_l6", "compact_")):
            assert roster.published_weights(name).url.startswith("https://")


def test_the_command() -> None:
    with served({FILE: mobilenet_v2_weights().read_bytes()}) as (address, _):
        done = CliRunner().invoke(app, ["weights", "fetch", "mobilenet_v2", "--mirror", address, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"weights": {"mobilenet_v2": str(roster.fetched_weights("mobilenet_v2"))}}
    listed = json.loads(CliRunner().invoke(app, ["weights", "list", "--json"]).stdout)["weights"]
    assert [row["model"] for row in listed if row["file"]] == ["mobilenet_v2"]
    for arguments in (["resnet19"], ["resnet18", "--mirror", "ftp://mirror"]):
        wrong = CliRunner().invoke(app, ["weights", "fetch", *arguments])
        assert wrong.exit_code == 2, wrong.output
