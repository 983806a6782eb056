"""Training rows of experts: features of the compact models and classes, in a file that workers read once."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udfs.specialization._expert_head import LinearHead
from udfs.weights import local_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["TrainingRows", "head_from_bytes", "read_rows", "rows_from_bytes", "rows_to_bytes"]


class TrainingRows(NamedTuple):
    """Features of shape (rows, features), computed once by a compact model, and classes of shape (rows,)."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]


def rows_to_bytes(parts: Sequence[TrainingRows], head: LinearHead | None = None) -> bytes:
    """Return the rows of all compact models, and a head of the oracle, as bytes.

    Features are stored in half precision, the head in single precision.
    """
    arrays: dict[str, Any] = {}
    for place, part in enumerate(parts):
        largest = np.finfo(np.float16).max
        arrays[f"{place}/features"] = np.clip(part.features, -largest, largest).astype(np.float16)
        arrays[f"{place}/labels"] = part.labels
    if head is not None:
        arrays["head/weight"], arrays["head/bias"] = head
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def rows_from_bytes(data: bytes) -> tuple[TrainingRows, ...]:
    """Return the rows of :func:`rows_to_bytes`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return tuple(
            TrainingRows(arrays[f"{place}/features"].astype(np.float32), arrays[f"{place}/labels"])
            for place in range(sum(name.endswith("/labels") for name in arrays.files))
        )


def head_from_bytes(data: bytes) -> LinearHead | None:
    """Return the head of the oracle in bytes of :func:`rows_to_bytes`, if there is one."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return LinearHead(arrays["head/weight"], arrays["head/bias"]) if "head/weight" in arrays else None


@lru_cache(maxsize=2)
def read_rows(path: str) -> tuple[TrainingRows, ...]:
    """Read the rows of all compact models from a file of this node; they stay in this process."""
    return rows_from_bytes(local_file(path).read_bytes())
