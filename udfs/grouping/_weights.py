"""Weights of a session, without its optimizer and random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from udfs.packing import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["packed_weights", "weights_of"]


class _Kept(NamedTuple):
    array: NDArray[np.generic]
    kind: str


def weights_of(state: bytes) -> bytes:
    """Return the weights in a checkpoint of a session, packed as ``open_reloadable`` of its framework loads them."""
    saved = unpack(state, _Kept)
    return pack({"model": saved["model"]}, _arrays)


def packed_weights(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Pack tensors of torch by the names of a state dict, as :func:`weights_of` does."""
    return pack({"model": {name: _Kept(array, str(array.dtype)) for name, array in tensors.items()}}, _arrays)


def _arrays(value: Any) -> tuple[NDArray[np.generic], str] | None:
    return tuple(value) if isinstance(value, _Kept) else None  # type: ignore[return-value]
