"""Heads and training rows of the compact models, in a file that workers read once."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udfs.specialization._expert_head import LinearHead
from udfs.weights import local_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LearnedParts", "TrainingRows", "parts_from_bytes", "parts_to_bytes", "read_parts"]


class TrainingRows(NamedTuple):
    """Features of shape (rows, features), computed once by a compact model, and classes of shape (rows,)."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]


class LearnedParts(NamedTuple):
    """Parts of a fitted classifier that are arrays.

    Parameters
    ----------
    heads : tuple of LinearHead
        Classifier of all classes of each compact model.
    rows : tuple of TrainingRows
        Training rows of each compact model; none if experts are not trained.
    oracle : LinearHead, optional
        Head of the oracle, if it was trained.
    """

    heads: tuple[LinearHead, ...]
    rows: tuple[TrainingRows, ...] = ()
    oracle: LinearHead | None = None


def parts_to_bytes(parts: LearnedParts) -> bytes:
    """Return the parts as bytes: heads in single precision, features of training rows in half precision."""
    arrays: dict[str, Any] = {}
    for place, head in enumerate(parts.heads):
        arrays[f"{place}/weight"], arrays[f"{place}/bias"] = head
    for place, rows in enumerate(parts.rows):
        largest = np.finfo(np.float16).max
        arrays[f"{place}/features"] = np.clip(rows.features, -largest, largest).astype(np.float16)
        arrays[f"{place}/labels"] = rows.labels
    if parts.oracle is not None:
        arrays["oracle/weight"], arrays["oracle/bias"] = parts.oracle
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def parts_from_bytes(data: bytes) -> LearnedParts:
    """Return what :func:`parts_to_bytes` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        names = {name.split("/")[0] for name in arrays.files} - {"oracle"}
        places = sorted(map(int, names))
        return LearnedParts(
            tuple(LinearHead(arrays[f"{place}/weight"], arrays[f"{place}/bias"]) for place in places),
            tuple(
                TrainingRows(arrays[f"{place}/features"].astype(np.float32), arrays[f"{place}/labels"])
                for place in places
                if f"{place}/labels" in arrays
            ),
            LinearHead(arrays["oracle/weight"], arrays["oracle/bias"]) if "oracle/weight" in arrays else None,
        )


@lru_cache(maxsize=2)
def read_parts(path: str) -> LearnedParts:
    """Read the parts from a file of this node; they stay in this process."""
    return parts_from_bytes(local_file(path).read_bytes())
