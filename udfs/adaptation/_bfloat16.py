"""Conversion of numbers to bfloat16, the rounded upper half of a float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["StorageError", "from_bfloat16", "storage_error", "to_bfloat16"]

_NAN = 0x7FC0


@dataclass(frozen=True, slots=True)
class StorageError:
    """Errors of stored numbers.

    ``relative`` leaves out zeros, which are stored exactly.

    Examples
    --------
    >>> StorageError(0.5, 0.001).joined(StorageError(0.25, 0.004))
    StorageError(absolute=0.5, relative=0.004)
    """

    absolute: float = 0.0
    relative: float = 0.0

    def joined(self, other: StorageError) -> StorageError:
        """Return the larger of both."""
        return StorageError(max(self.absolute, other.absolute), max(self.relative, other.relative))


def to_bfloat16(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round float32 to bfloat16, with ties to even: sign, exponent and 7 bits of each number.

    Examples
    --------
    >>> from_bfloat16(to_bfloat16(np.array([1.0, 1.00390625, -3.14159], np.float32))).tolist()
    [1.0, 1.0, -3.140625]
    """
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    # The addition would overflow into the sign of some NaNs.
    return np.where(np.isnan(numbers), np.uint16(_NAN), rounded)


def from_bfloat16(stored: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the float32 numbers that :func:`to_bfloat16` rounded to."""
    return (np.asarray(stored).astype(np.uint32) << 16).view(np.float32)


def storage_error(numbers: NDArray[np.float32], stored: NDArray[np.float32]) -> StorageError:
    """Compare finite numbers with those that are read back."""
    finite = np.isfinite(numbers) & np.isfinite(stored)
    exact = numbers[finite].astype(np.float64)
    if not exact.size:
        return StorageError()
    difference = np.abs(stored[finite] - exact)
    size = np.abs(exact)
    share = np.divide(difference, size, out=np.zeros_like(difference), where=size > 0)
    return StorageError(float(difference.max()), float(share.max()))
