"""A program as bytes: a JSON document and its arrays in one safetensors file. Data, no code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling import Program, ProgramError

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["from_bytes", "to_bytes"]

_DOCUMENT = "document"
_DIGEST = "digest"


def to_bytes(program: Program) -> bytes:
    """Return a program and its digest as a safetensors file, with the document in its metadata."""
    from safetensors.numpy import save  # an optional extra

    document, arrays = program.document()
    contiguous: dict[str, NDArray[Any]] = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(contiguous, metadata={_DOCUMENT: json.dumps(document, sort_keys=True), _DIGEST: program.digest})


def from_bytes(data: bytes) -> Program:
    """Read a program from the bytes of :func:`to_bytes`.

    Raises
    ------
    ProgramError
        The bytes are no program, or the digest does not match.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        document = json.loads(metadata[_DOCUMENT])
    except (SafetensorError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise ProgramError(f"data must be a compiled pipeline, got other or truncated bytes: {error}") from error
    program = Program.of_document(document, arrays)
    if program.digest != metadata.get(_DIGEST):
        raise ProgramError("digest must match the one that was saved, got an altered file. Compile the pipeline again.")
    return program
