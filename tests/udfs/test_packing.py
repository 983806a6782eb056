"""The one reader of a safetensors header: what it accepts, and what it refuses without reading it."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from safetensors.numpy import save

from udfs.packing import StateError, safetensors_metadata, unpack


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
