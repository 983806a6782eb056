from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from udfs import store as module
from udfs.store import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 300_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.from_uri(str(tmp_path / "a store%20 of ümlauts"))


def test_what_is_written_is_read(store: Store) -> None:
    store.write(b"one", "folder", "deep", "file")
    store.write(memoryview(b"two"), "folder/other")
    assert store.read("folder", "deep", "file") == b"one"
    assert store.read("folder", "other") == b"two"
    assert store.list("folder") == ["deep", "other"]
    assert store.list("nowhere") == []
    assert (store.exists("folder", "deep"), store.exists("folder", "other"), store.exists("file")) == (
        True,
        True,
        False,
    )
    store.write(b"three", "folder", "other")
    assert store.read("folder", "other") == b"three"
    with store.open_input("folder", "other") as file:
        file.seek(2)
        assert file.read() == b"ree"


def test_a_path_and_its_uri_are_one_place(store: Store, tmp_path: Path) -> None:
    store.write(b"here", "file")
    folder = tmp_path / "a store%20 of ümlauts"
    assert (folder / "file").read_bytes() == b"here"
    assert Store.from_uri(folder.as_uri()) == store == pickle.loads(pickle.dumps(store))
    assert Store.from_uri(f"file:{folder.as_uri().removeprefix('file://')}").read("file") == b"here"
    assert store.path("file") == str(folder / "file")
    assert store.url("x y", "z") == f"{folder.as_uri()}/x%20y/z"


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Store.from_uri("runs") == Store.from_uri(str(tmp_path / "runs"))


def test_deleting(store: Store) -> None:
    for name in ("one", "two"):
        store.write(b"", "folder", name)
    store.delete("folder", "one")
    assert store.list("folder") == ["two"]
    store.delete("folder")
    store.delete("folder")
    assert not store.exists("folder")
    with pytest.raises(StoreError, match="does not delete itself"):
        store.delete()


@pytest.mark.parametrize("parts", [("..", "x"), ("a/../../x",), ("",), ("/etc", "passwd"), ("a", "."), ("a//b",)])
def test_no_path_leads_out(store: Store, parts: tuple[str, ...]) -> None:
    with pytest.raises(StoreError, match="no path within a store"):
        store.write(b"", *parts)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "is empty"),
        ("sthree://bucket/x", "store must be a local path or a URI of .*hdfs"),
        ("hdf://host/x", "did you mean 'hdfs'"),
        ("file://host/x", "names no host; write file:///host/x"),
    ],
)
def test_a_uri_that_leads_nowhere(uri: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        Store.from_uri(uri)


def test_hdfs_without_hadoop_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise OSError("Unable to load libjvm")

    # Not for real: with Hadoop it would wait for a host that is not there.
    monkeypatch.setattr(module.fs, "FileSystem", type("FileSystem", (), {"from_uri": staticmethod(fail)}))
    with pytest.raises(StoreError, match=r"hdfs://nowhere/x.*libjvm.*HADOOP_HOME"):
        Store.from_uri("hdfs://nowhere/x")


def test_what_hadoop_calls_s3a_is_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(module, "_opened", asked.append)
    assert Store.from_uri("s3a://bucket/runs/").uri == "s3://bucket/runs"
    assert asked == ["s3://bucket/runs"]


def test_half_a_file_is_never_there(store: Store) -> None:
    store.write(b"old", "folder", "file")

    class KilledError(Exception):
        pass

    def fail() -> None:
        with store.writing("folder", "file") as stream:
            stream.write(b"ne")
            stream.flush()
            assert store.read("folder", "file") == b"old"
            assert store.list("folder") == ["file"]
            raise KilledError

    with pytest.raises(KilledError):
        fail()
    assert store.read("folder", "file") == b"old"
    assert os.listdir(store.path("folder")) == ["file"]  # noqa: PTH208 - hidden ones too


_WRITER = """
import sys
from udfs.store import Store
for _ in range(40):
    Store(sys.argv[1]).write(sys.argv[2].encode() * int(sys.argv[3]), "file")
"""


def test_readers_and_writers_at_once_see_whole_files(store: Store) -> None:
    store.write(b"a" * SIZE, "file")
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, store.uri, letter, str(SIZE)]) for letter in "bc"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        content = store.read("file")
        assert len(content) == SIZE
        assert len(set(content)) == 1
        seen.add(content[0])
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen & set(b"bc"), "no reader met a writer"
    assert store.list() == ["file"]


def test_an_object_store_is_written_as_it_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object is there once its stream is closed: a second name and a move would copy every byte."""
    monkeypatch.setattr(module, "_OBJECT_STORES", {"local"})
    Path(store.path("folder")).mkdir(parents=True)
    with store.writing("folder", "file") as stream:
        stream.write(b"whole")
        assert os.listdir(store.path("folder")) == ["file"]  # noqa: PTH208
    assert store.read("folder", "file") == b"whole"


def test_where_a_move_replaces_nothing_the_old_file_goes_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted = []
    real = module._delete
    monkeypatch.setattr(module, "_KEEPS_TARGET", {"local"})
    monkeypatch.setattr(module, "_delete", lambda system, path: (deleted.append(path), real(system, path)))
    store.write(b"one", "file")
    store.write(b"two", "file")
    assert (store.read("file"), deleted) == (b"two", [store.path("file")] * 2)


def test_a_store_that_is_writable_is_left_as_it_was(store: Store) -> None:
    store.check_writable()
    assert store.list() == []


def test_what_is_not_there(store: Store) -> None:
    for read in (store.read, store.open_input):
        with pytest.raises(StoreError, match=r"ümlauts|%C3%BC.*nothing is there to read"):
            read("folder", "file")


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="a file lies where a folder has to be"):
        Store.from_uri(str(tmp_path / "file")).check_writable()


def test_a_full_disk(small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("256k")
    store = Store.from_uri(str(disk))
    store.write(b"small", "file")
    with pytest.raises(StoreError, match="the disk is full: free some space"):
        store.write(b"x" * SIZE, "file")
    assert store.read("file") == b"small"
    assert [path.name for path in disk.iterdir()] == ["file"]


def test_a_read_only_disk(small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("256k")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(StoreError, match=r"no permission to write.*read-only.*another store"):
        Store.from_uri(str(disk)).check_writable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="no permission to write"):
        Store.from_uri(str(tmp_path)).check_writable()


def test_what_the_file_system_says_is_not_lost(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def get_file_info(self, path: str) -> None:
            raise OSError(errno.EIO, "the cable is out", path)

    monkeypatch.setattr(module, "_opened", lambda _: (Broken(), "/x"))
    with pytest.raises(StoreError, match=r"cannot read.*the cable is out"):
        store.exists("file")


def test_partial_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    store = Store.from_uri(str(tmp_path))
    store.write(b"whole", "runs", "a", "file")
    for folder in ("runs/a", "runs/b"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / ".partial-1-file").write_bytes(b"half")
    store.sweep("runs", "a", unchanged_s=3600)
    assert (tmp_path / "runs/a/.partial-1-file").exists(), "it may be in writing"
    store.sweep("runs", "a")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".partial-1-file", "file"]
    assert (tmp_path / "runs/b/.partial-1-file").exists()
    store.sweep("nothing")
