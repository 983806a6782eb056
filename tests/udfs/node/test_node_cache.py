from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from udfs.node import CACHE_VARIABLE, NodeCacheError, node_folder, written_once
from udfs.node import _cache as node_cache

if TYPE_CHECKING:
    from pathlib import Path


def test_a_private_folder_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(node_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = node_folder("models")
    assert folder == tmp_path / f"cerebro-{os.getuid()}" / "models"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(node_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    mine = os.getuid()
    (tmp_path / f"cerebro-{mine + 1}").mkdir()
    monkeypatch.setattr(node_cache.os, "getuid", lambda: mine + 1)
    with pytest.raises(NodeCacheError, match=f"belongs to another user.*{CACHE_VARIABLE}"):
        node_folder("models")


def test_a_name_that_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(NodeCacheError, match="name another cache folder"):
        node_folder("models")


def test_half_a_file_is_never_there(tmp_path: Path) -> None:
    target = tmp_path / "answer"

    class FullDiskError(Exception):
        pass

    def fail() -> None:
        with written_once(target) as partial:
            partial.write_text("4")
            assert not target.exists()
            raise FullDiskError

    with pytest.raises(FullDiskError):
        fail()
    assert list(tmp_path.iterdir()) == []
    with written_once(target) as partial:
        partial.write_text("42")
    assert target.read_text() == "42"
    assert list(tmp_path.iterdir()) == [target]


def test_partial_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    abandoned, young = tmp_path / ".partial-old", tmp_path / ".partial-new"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (1, 1))
    young.write_bytes(b"half")
    with written_once(tmp_path / "first") as held:
        os.utime(held, (1, 1))
        with written_once(tmp_path / "second") as partial:
            partial.write_bytes(b"whole")
        assert held.exists(), "its process lives"
        held.write_bytes(b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".partial-new", "first", "second"]
