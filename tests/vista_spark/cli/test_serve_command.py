"""``vista serve``: files that say nothing to serve, ports that are taken."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from vista_spark.cli import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not a Python file"),
        ("session = []", "does not define sessions; did you mean 'session'?"),
        ("sessions = []", "is not a list of"),
        ("sessions = ['cats']", "is not a list of"),
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
    assert "is taken by another process" in done.output


def test_a_token_and_none(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["serve", str(tmp_path), "--no-token", "--token", "t"])
    assert done.exit_code == 2
    assert "give one of them" in done.output
