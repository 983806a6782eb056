"""States as safetensors files: what the format's own library reads of them, and what is refused without reading it."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from udfs.packing import StateError, pack, safetensors_metadata, unpack


def announced(header: bytes, length: int | None = None) -> bytes:
    """A file whose header announces a length, the true one by default."""
    return (len(header) if length is None else length).to_bytes(8, "little") + header


class Unread(io.BytesIO):
    """A file that claims to be of any size, and refuses long reads."""

    def seek(self, offset: int, whence: int = 0) -> int:
        return 2**40 if whence == 2 else super().seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert 0 <= size <= 100_000_000, "a header of any length is read"
        return super().read(size)


def test_the_metadata_is_read_without_the_tensors() -> None:
    packed = save({"w": np.ones(3)}, metadata={"state": "{}", "sizes": "[1]"})
    assert safetensors_metadata(io.BytesIO(packed)) == {"state": "{}", "sizes": "[1]"}
    assert safetensors_metadata(io.BytesIO(packed[:-24])) == {"state": "{}", "sizes": "[1]"}
    assert safetensors_metadata(io.BytesIO(save({"w": np.ones(3)}))) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x02\0\0",
        announced(b"{}", 3),
        announced(b"{}", 2**63),
        announced(b"[1]"),
        announced(b"{1}"),
        announced(b"{" * 200_000),
        announced(b'{"a":' * 200_000),
        announced(b'{"\xff": 1}'),
        announced(json.dumps({"__metadata__": 3}).encode()),
    ],
)
def test_what_is_not_a_safetensors_file(content: bytes) -> None:
    assert safetensors_metadata(io.BytesIO(content)) is None
    with pytest.raises(StateError, match=f"{len(content)} bytes that are not a state"):
        unpack(content, lambda array, _kind: array)


def test_a_header_beyond_the_formats_limit_is_not_read() -> None:
    assert safetensors_metadata(Unread(announced(b"{}", 2**39))) is None


def as_array(value: Any) -> tuple[Any, str] | None:
    return (value, "numpy") if isinstance(value, np.ndarray) else None


TYPES = [
    "bool",
    "float16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
]
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(st.dictionaries(st.text(max_size=5), st.tuples(st.sampled_from(TYPES), SHAPES), max_size=6), st.booleans())
def test_what_is_written_is_a_file_of_the_format(described: dict[str, tuple[str, Any]], columns: bool) -> None:
    """Of the library that is no part of it: each tensor as it was, whatever its type, its shape and its order."""
    draw = np.random.default_rng(0)
    arrays = {
        name: np.asarray(draw.integers(0, 2, shape).astype(dtype), order="F" if columns else "C")
        for name, (dtype, shape) in described.items()
    }
    packed = pack({"all": arrays, 3: (None, 1.5)}, as_array)
    found = load(packed)
    assert len(found) == len(arrays)
    assert sorted((each.dtype.name, each.shape, each.tobytes()) for each in found.values()) == sorted(
        (each.dtype.name, each.shape, each.tobytes()) for each in arrays.values()
    )
    for state in (
        unpack(packed, lambda array, _: array),
        unpack(save(found, library_metadata(packed)), lambda a, _: a),
    ):
        assert state[3] == (None, 1.5)
        for name, array in arrays.items():
            assert state["all"][name].dtype == array.dtype
            np.testing.assert_array_equal(state["all"][name], array)


def library_metadata(packed: bytes) -> dict[str, str]:
    found = safetensors_metadata(io.BytesIO(packed))
    assert found is not None
    return found


def test_large_arrays_are_views_and_small_ones_hold_nothing() -> None:
    packed = pack({"large": np.arange(40_000, dtype=np.float32), "small": np.ones(3)}, as_array)
    state = unpack(packed, lambda array, _: array)
    assert np.shares_memory(state["large"], np.frombuffer(packed, np.uint8))
    assert state["small"].base is None
    assert state["large"].flags.aligned


@pytest.mark.parametrize(
    ("change", "cut"),
    [
        ({"data_offsets": [0, 16]}, 0),
        ({"data_offsets": [8, 32]}, 0),
        ({"data_offsets": [-8, 16]}, 0),
        ({"data_offsets": [0, 24, 32]}, 0),
        ({"data_offsets": [0.0, 24.0]}, 0),
        ({"shape": [-3, -1]}, 0),
        ({"shape": [True, 3]}, 0),
        ({"shape": [2**62, 2**62]}, 0),
        ({"shape": "3"}, 0),
        ({"dtype": "F99"}, 0),
        ({"dtype": ["F64"]}, 0),
        ({"dtype": "F32"}, 0),
        ({}, 1),
        ({}, -1),
    ],
)
def test_a_header_that_lies_is_refused(change: dict[str, Any], cut: int) -> None:
    entry = {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]} | change
    nesting = json.dumps({"w": {"$tensor": "w", "as": "numpy"}})
    header = json.dumps({"__metadata__": {"state": nesting}, "w": entry}).encode()
    with pytest.raises(StateError, match="bytes that are not a state"):
        unpack(announced(header) + bytes(24 + cut), lambda array, _: array)


def test_two_tensors_of_one_place_are_refused() -> None:
    entry = {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}
    header = json.dumps({"__metadata__": {"state": "{}"}, "v": entry, "w": entry}).encode()
    with pytest.raises(StateError, match="not where the header says"):
        unpack(announced(header) + bytes(24), lambda array, _: array)
