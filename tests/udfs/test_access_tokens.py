"""The token file is created once, and only its owner reads it."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from udfs.access_tokens import TokenFileError, create_program_token, program_token, token_path

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CEREBRO_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "cerebro" / "token"


def test_servers_that_start_together_have_one_token(configuration: Path) -> None:
    assert program_token() is None
    old = os.umask(0)
    try:
        with ThreadPoolExecutor(8) as pool:
            tokens = list(pool.map(lambda _: create_program_token(), range(16)))
    finally:
        os.umask(old)
    assert len(set(tokens)) == 1
    assert len(tokens[0]) == 43
    assert program_token() == tokens[0]
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o600
    assert stat.S_IMODE(configuration.parent.stat().st_mode) == 0o700
    assert list(configuration.parent.iterdir()) == [configuration]


def test_the_token_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    token = create_program_token()
    assert {program_token(f"http://{host}:8765") for host in ("127.0.0.1", "localhost", "[::1]")} == {token}
    for server in ("http://cerebro.example:8765", "http://127.0.0.1.example", "http://127.0.0.1@cerebro.example"):
        assert program_token(server) is None
    monkeypatch.setenv("CEREBRO_TOKEN", "a token of another server")
    assert program_token("http://cerebro.example:8765") == "a token of another server"
    assert create_program_token() == "a token of another server"


def test_a_file_that_others_read(configuration: Path) -> None:
    create_program_token()
    configuration.chmod(0o640)
    for read in (program_token, create_program_token):
        with pytest.raises(TokenFileError, match=r"must belong to you and have mode 600, got user \d+ and mode 640"):
            read()


def test_a_file_of_another_user(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_program_token()
    monkeypatch.setattr(os, "getuid", lambda: configuration.stat().st_uid + 1)
    with pytest.raises(TokenFileError, match="must belong to you"):
        program_token()


def test_an_empty_file(configuration: Path) -> None:
    create_program_token()
    configuration.write_text("\n")
    assert program_token() is None
    with pytest.raises(TokenFileError, match="must contain a token, got an empty file"):
        create_program_token()


def test_a_folder_that_cannot_be_written(configuration: Path) -> None:
    configuration.parent.write_text("a file in the place of the folder")
    with pytest.raises(TokenFileError, match="Set CEREBRO_TOKEN"):
        create_program_token()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for configured in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CONFIG_HOME", configured)
        assert token_path() == tmp_path / ".config" / "cerebro" / "token"
