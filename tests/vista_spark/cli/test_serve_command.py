"""``vista serve``: files that say nothing to serve, and a server that answers until it is interrupted."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from http_client import HttpClient, infer_body
from places import ROOT
from sessions import CONNECT
from typer.testing import CliRunner

from vista_spark.cli import app

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
from optimizer.serving import BatchingProfile
from udfs.serving import TensorSpec
from vista_spark.serving import Session

def double(arrays):
    return {"y": 2 * arrays["x"]}

inputs = [TensorSpec("x", "float32", (-1, 2))]
profile = BatchingProfile({1: 5.0, 8: 8.0})
sessions = [Session("double", model=double, inputs=inputs, profile=profile, slo_ms=60_000)]
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "traffic.py is not there. Name a Python file"),
        ("session = []", "must define sessions; did you mean 'session'?"),
        ("sessions = []", "must be a list of"),
        ("sessions = ['cats']", "must be a list of"),
        ("x = 1\nx / 0", "line 2: ZeroDivisionError"),
        ("from vista_spark.serving import Session\nsessions = [Session('a/b', model='alexnet')]", "without a slash"),
    ],
)
def test_a_file_without_sessions(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "traffic.py"
    if text is not None:
        file.write_text(text)
    done = CliRunner().invoke(app, ["serve", str(file), "--port", "0"])
    assert done.exit_code == 2, done.output
    assert words in done.output


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = CliRunner().invoke(app, ["serve", str(tmp_path / "traffic.py"), "--port", str(taken.getsockname()[1])])
    assert done.exit_code == 2
    assert "which another process uses" in done.output


def test_a_token_and_none(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["serve", str(tmp_path), "--no-token", "--token", "t"])
    assert done.exit_code == 2
    assert "must not be given together" in done.output


@pytest.mark.parametrize("text", ["0", "-1", "two", "8:0", "0:0", "1:2:3", ":", "", "²"])
def test_backends_that_are_no_numbers(tmp_path: Path, text: str) -> None:
    done = CliRunner().invoke(app, ["serve", str(tmp_path), "--port", "0", "--backends", text])
    assert done.exit_code == 2
    assert "LEAST:MOST such as 0:8" in " ".join(done.output.split())


def test_a_model_of_a_store_without_one(tmp_path: Path) -> None:
    file = tmp_path / "traffic.py"
    file.write_text(
        "from vista_spark.serving import Session\nsessions = [Session('cats', model='store:/cats@champion')]"
    )
    done = CliRunner().invoke(app, ["serve", str(file), "--port", "0"])
    assert done.exit_code == 2
    assert "--store must name the store" in " ".join(done.output.split())


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="once is enough")
def test_a_server_until_it_is_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "traffic.py"
    file.write_text(FILE)
    command = [sys.executable, "-m", "vista_spark", "serve", str(file), "--backends", "1:1", "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--master", "local[2]", "--store", str(tmp_path / "models")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            facts = json.loads(process.stdout.readline())
            client = HttpClient(int(facts["url"].rsplit(":", 1)[1]), facts["token"])
            for number in range(3):
                reply = client.infer("double", infer_body("FP32", [1, 2], [[number, 0.5]]))
                assert reply.json["outputs"][0]["data"] == [2 * number, 1]
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
