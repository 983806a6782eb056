"""Places for results: folders, URIs, and those that cannot be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from optimizer.errors import InvalidArgumentError
from udfs.driver import check_place, is_uri, results_at

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_made_and_used_as_it_is(tmp_path: Path) -> None:
    for place in (str(tmp_path / "a" / "b"), f"file://{tmp_path}/c"):
        check_place(place)
    assert list(tmp_path.iterdir()) == [], "a check leaves nothing"
    with results_at(f"file://{tmp_path}/c") as folder:
        (folder / "x.txt").write_text("1")
    assert (tmp_path / "c" / "x.txt").read_text() == "1"


def test_files_are_copied_to_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cloud:
        """A file system that is not this machine's, to those who ask by URI."""

        @staticmethod
        def from_uri(uri: str) -> tuple[FileSystem, str]:
            return SubTreeFileSystem(str(tmp_path), LocalFileSystem()), uri.removeprefix("cloud://")

    monkeypatch.setattr("udfs.driver._results.FileSystem", Cloud)
    check_place("cloud://bucket/out")
    with results_at("cloud://bucket/out") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "x.txt").write_text("1")
    assert [path.name for path in (tmp_path / "bucket" / "out").rglob("*")] == ["deep", "x.txt"]
    assert not folder.exists()
    with pytest.raises(ZeroDivisionError), results_at("cloud://bucket/failed") as folder:
        raise ZeroDivisionError
    assert not (tmp_path / "bucket" / "failed").exists()


@pytest.mark.parametrize("place", ["s4://bucket/out", "/proc/nowhere/out", "{folder}/file/out", "{folder}/file"])
def test_a_place_nobody_can_write_to(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidArgumentError, match="--out"):
        check_place(place.format(folder=tmp_path))
    assert is_uri(place) == place.startswith("s4:")
