"""Weights of a session, without its optimizer and random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from udfs.packing import pack, unpack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["weights_of"]


class _Kept(NamedTuple):
    array: NDArray[np.generic]
    kind: str


def weights_of(state: bytes) -> bytes:
    """Return the weights in a checkpoint of a session, packed as ``open_reloadable`` of its framework loads them."""
    saved = unpack(state, _Kept)
    return pack({"model": saved["model"]}, _arrays)


def _arrays(value: Any) -> tuple[NDArray[np.generic], str] | None:
    return tuple(value) if isinstance(value, _Kept) else None  # type: ignore[return-value]
