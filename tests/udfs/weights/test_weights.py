"""Reading weights: every format, from anywhere, and nothing a file says is run."""

from __future__ import annotations

import io
import os
import pickle
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from places import ROOT
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

torch = pytest.importorskip("torch")

from safetensors.torch import save_file

from optimizer.errors import CerebroError
from udfs.node import CACHE_VARIABLE
from udfs.weights import WeightsError, fit_state_dict, read_state_dict
from udfs.weights import _file as weights_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ARRAYS = {
    "fc.weight": np.arange(6, dtype="float32").reshape(2, 3),
    "fc.bias": np.array([1, 2], "float64"),
    "steps": np.array(7, "int64"),
    "none": np.zeros((0, 4), "float32"),
}
TENSORS = {key: torch.from_numpy(array) for key, array in ARRAYS.items()}


def save_npz(path: Path, save: Callable[..., None], arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        save(file, **arrays)


def saved_bytes(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Path], object]] = {
    "torch": lambda path: torch.save(TENSORS, path),
    "torch legacy": lambda path: torch.save(TENSORS, path, _use_new_zipfile_serialization=False),
    "safetensors": lambda path: save_file(TENSORS, path),
    "npz": lambda path: save_npz(path, np.savez, ARRAYS),
    "npz compressed": lambda path: save_npz(path, np.savez_compressed, ARRAYS),
}


def check(found: dict[str, torch.Tensor]) -> None:
    assert found.keys() == TENSORS.keys()
    for key, tensor in TENSORS.items():
        assert found[key].dtype == tensor.dtype
        assert torch.equal(found[key], tensor)


@pytest.mark.parametrize("suffix", ["", ".bin", ".npz", ".pkl"])
@pytest.mark.parametrize("writer", WRITERS)
def test_the_content_decides_the_format_not_the_name(writer: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"weights{suffix}"
    WRITERS[writer](path)
    check(read_state_dict(path))
    check(read_state_dict(str(path)))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("content", [ARRAYS, [ARRAYS], OrderedDict(ARRAYS)], ids=["dict", "list", "ordered"])
def test_a_pickle_of_arrays_is_refused_with_the_way_out(content: object, protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "w.pkl"
    path.write_bytes(pickle.dumps(content, protocol))
    with pytest.raises(WeightsError, match=r"w\.pkl is a pickle, which can run code.*safetensors\.numpy\.save_file"):
        read_state_dict(path)


def test_arrays_of_a_pickle_are_converted_as_the_guide_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.pkl").write_bytes(pickle.dumps(ARRAYS))
    guide = (ROOT / "docs" / "feature_transfer.md").read_text()
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "weights.pkl" in block)
    exec(code, {})  # (our own guide's code)
    check(read_state_dict("weights.safetensors"))


def test_nesting_becomes_the_key(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    nested = OrderedDict(conv1=[torch.zeros((1, 2)), torch.ones(2)], fire={"a/b": (torch.zeros(3),)})
    torch.save(nested, path)
    assert {key: tuple(tensor.shape) for key, tensor in read_state_dict(path).items()} == {
        "conv1.0": (1, 2),
        "conv1.1": (2,),
        "fire.a/b.0": (3,),
    }


@pytest.mark.parametrize("nest", ["state_dict", "model_state_dict", "model", "module", "net"])
def test_checkpoints_are_opened_and_prefixes_cut(nest: str, tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    inner = {f"module._orig_mod.{key}": tensor for key, tensor in TENSORS.items()}
    torch.save({"epoch": 3, nest: inner, "optimizer": {"state": {0: torch.ones(1)}}}, path)
    check(read_state_dict(path))


def test_a_prefix_of_some_keys_is_no_prefix(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save({"module.w": torch.ones(1), "b": torch.ones(1)}, path)
    assert set(read_state_dict(path)) == {"module.w", "b"}


def test_a_state_dict_with_a_key_that_is_called_model(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save({"model": torch.ones(2), "w": torch.ones(1)}, path)
    assert set(read_state_dict(path)) == {"model", "w"}


# --- no code


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self.marker),)


def evil_array(marker: Path) -> np.ndarray[Any, Any]:
    array = np.empty(1, object)
    array[0] = Evil(marker)
    return array


EVIL: dict[str, Callable[[Path, Path], object]] = {
    **{
        f"pickle {protocol}": lambda path, marker, protocol=protocol: path.write_bytes(
            pickle.dumps({"w": np.ones(1), "x": Evil(marker)}, protocol)
        )
        for protocol in (0, 2, 5)
    },
    "pickle of objects": lambda path, marker: path.write_bytes(pickle.dumps({"w": evil_array(marker)})),
    "torch": lambda path, marker: torch.save({"w": torch.ones(1), "x": Evil(marker)}, path),
    "torch legacy": lambda path, marker: torch.save(
        {"w": torch.ones(1), "x": Evil(marker)}, path, _use_new_zipfile_serialization=False
    ),
    "npz": lambda path, marker: save_npz(path, np.savez, {"w": evil_array(marker)}),
}


@pytest.mark.parametrize("kind", EVIL)
def test_nothing_in_a_file_is_executed(kind: str, tmp_path: Path) -> None:
    path, marker = tmp_path / "w", tmp_path / "ran"
    EVIL[kind](path, marker)
    with pytest.raises(WeightsError) as caught:
        read_state_dict(path)
    assert not marker.exists()
    assert isinstance(caught.value, CerebroError)
    reason = {"p": "is a pickle", "n": "Object arrays cannot be loaded", "t": "mkdir: it is more than arrays"}[kind[0]]
    assert reason in str(caught.value)


def test_the_evil_files_would_run_elsewhere(tmp_path: Path) -> None:
    path, marker = tmp_path / "w", tmp_path / "ran"
    EVIL["pickle 2"](path, marker)
    pickle.loads(path.read_bytes())  # (the control of the test above)
    assert marker.exists()
    marker.rmdir()
    EVIL["torch"](path, marker)
    torch.load(path, weights_only=False)
    assert marker.exists()


@pytest.mark.parametrize("nest", ["model", "anything"])
def test_a_file_that_holds_itself_comes_to_an_end(nest: str, tmp_path: Path) -> None:
    path, endless = tmp_path / "w.pt", {}
    endless[nest] = endless
    torch.save(endless, path)
    with pytest.raises(WeightsError, match="cannot be read, it may be damaged: RecursionError"):
        read_state_dict(path)


# --- bad files


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kept", [0.3, 0.7, 0.95])
def test_a_truncated_file_says_so(writer: str, kept: float, tmp_path: Path) -> None:
    path = tmp_path / "w"
    WRITERS[writer](path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(WeightsError, match=f"{path}"):
        read_state_dict(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a weights file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), r"is not a weights file.*formats: torch, safetensors"),
        (b"\x93NUMPY" + bytes(100), "is not a weights file"),
        (b"not weights at all", "is not a weights file"),
        (saved_bytes({}), "holds no tensors"),
        (saved_bytes({"a": "text"}), "a is not an array of numbers: a str"),
        (saved_bytes("text"), "the content is not an array"),
    ],
)
def test_what_is_no_weights_file(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=message):
        read_state_dict(path)


def test_a_whole_module_is_refused_with_the_way_out(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(1, 1), tmp_path / "w.pt")
    with pytest.raises(WeightsError, match=r"asks to run torch\.nn\.modules\.linear\.Linear.*state_dict\(\)"):
        read_state_dict(tmp_path / "w.pt")


# --- places


def test_places_that_are_not(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="is not there"):
        read_state_dict(tmp_path / "w.pt")
    with pytest.raises(WeightsError, match="is not there"):
        read_state_dict((tmp_path / "w.pt").as_uri())
    with pytest.raises(WeightsError, match="is not a file"):
        read_state_dict(tmp_path)
    with pytest.raises(WeightsError, match="is not a file"):
        read_state_dict(tmp_path.as_uri())
    with pytest.raises(WeightsError, match="cannot be opened"):
        read_state_dict("gopher://host/w.pt")


def test_a_secret_in_a_uri_stays_out_of_the_message() -> None:
    with pytest.raises(WeightsError) as caught:
        read_state_dict("gopher://key:s3cret@host/w.pt?token=t0ken")
    assert "gopher://host/w.pt" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "t0ken" not in str(caught.value)


def test_a_file_uri_is_read_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    path = tmp_path / "with space.pt"
    torch.save(TENSORS, path)
    check(read_state_dict(path.as_uri()))
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A folder behind ``far://``, and the cache: pyarrow sees a file system that is not the local one."""
    far, cache = tmp_path / "far", tmp_path / "cache"
    far.mkdir()

    class Resolver:
        @staticmethod
        def from_uri(uri: str) -> tuple[FileSystem, str]:
            return SubTreeFileSystem(str(far), LocalFileSystem()), uri.removeprefix("far://")

    monkeypatch.setattr(weights_file, "FileSystem", Resolver)
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    return far, cache / "weights"


def test_a_remote_file_is_copied_once_until_it_changes(remote: tuple[Path, Path]) -> None:
    far, cache = remote
    torch.save(TENSORS, far / "w.pt")
    check(read_state_dict("far://w.pt"))
    (copy,) = cache.iterdir()
    before = copy.stat()
    check(read_state_dict("far://w.pt"))
    assert [entry.stat().st_mtime_ns for entry in cache.iterdir()] == [before.st_mtime_ns]
    torch.save({"other": torch.ones(1)}, far / "w.pt")
    assert set(read_state_dict("far://w.pt")) == {"other"}
    assert len(list(cache.iterdir())) == 2
    os.utime(far / "w.pt", ns=(1, 1))
    assert set(read_state_dict("far://w.pt")) == {"other"}
    assert len(list(cache.iterdir())) == 3


def test_a_remote_file_that_looks_compressed_is_copied_as_it_is(remote: tuple[Path, Path]) -> None:
    far, _ = remote
    torch.save(TENSORS, far / "w.gz")
    check(read_state_dict("far://w.gz"))


def test_a_copy_that_breaks_off_leaves_nothing(remote: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    far, cache = remote
    torch.save(TENSORS, far / "w.pt")

    def breaks(source: io.BufferedIOBase, target: io.BufferedIOBase, _length: int) -> None:
        target.write(source.read(10))
        raise OSError("the line is dead")

    monkeypatch.setattr("udfs.weights._file.shutil.copyfileobj", breaks)
    with pytest.raises(WeightsError, match="the line is dead"):
        read_state_dict("far://w.pt")
    assert list(cache.iterdir()) == []
    monkeypatch.undo()


def test_the_default_cache_is_private(
    remote: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, _ = remote
    torch.save(TENSORS, far / "w.pt")
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    check(read_state_dict("far://w.pt"))
    folder = tmp_path / f"cerebro-{os.getuid()}"
    assert folder.stat().st_mode & 0o077 == 0
    monkeypatch.setattr("os.getuid", lambda: 4242)
    folder.rename(tmp_path / "cerebro-4242")
    with pytest.raises(WeightsError, match="belongs to another user"):
        read_state_dict("far://w.pt")


# --- fitting


def test_a_module_that_does_not_fit_is_untouched() -> None:
    linear = torch.nn.Linear(2, 1)
    before = {key: tensor.clone() for key, tensor in linear.state_dict().items()}
    with pytest.raises(WeightsError, match=r"do not fit mine \(2 keys\): 1 missing: bias; 1 unexpected: b$"):
        fit_state_dict(linear, {"weight": torch.ones(1, 2), "b": torch.ones(1)}, "mine")
    assert all(torch.equal(tensor, before[key]) for key, tensor in linear.state_dict().items())


def test_a_long_list_of_keys_is_cut_with_its_count() -> None:
    with pytest.raises(WeightsError, match=r"30 unexpected: k0, k1, .*k7 and 22 more$"):
        fit_state_dict(torch.nn.ReLU(), {f"k{index}": torch.ones(1) for index in range(30)}, "relu")
