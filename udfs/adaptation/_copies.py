"""Lazy augmented copies of rows of the networks' inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.adaptation._augmentation import Augmenter

__all__ = ["CopiedInput", "CopiedRows"]


class CopiedRows:
    """Augmented copy of the rows of a segment."""

    def __init__(
        self, augmenter: Augmenter, inputs: Sequence[NDArray[Any]], record_ids: Sequence[str], copy: int
    ) -> None:
        self._augmenter, self._inputs, self._ids, self._copy = augmenter, inputs, record_ids, copy
        self._last: tuple[bytes, tuple[NDArray[Any], ...]] = (b"", ())

    def input(self, number: int) -> CopiedInput:
        """Return an input by its number."""
        return CopiedInput(self, number, self._inputs[number])

    def draw(self, rows: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Draw some rows of all inputs, and keep them for the next input of the same batch."""
        key = rows.tobytes()
        if not self._last[1] or self._last[0] != key:
            ids = [self._ids[row] for row in rows.tolist()]
            self._last = key, self._augmenter([array[rows] for array in self._inputs], ids, self._copy)
        return self._last[1]


class CopiedInput:
    """Array-like input of :class:`CopiedRows`; ``array`` has the records without augmentation."""

    def __init__(self, rows: CopiedRows, number: int, array: NDArray[Any]) -> None:
        self._rows, self._number = rows, number
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, picked: Any) -> NDArray[Any]:
        return self._rows.draw(np.arange(self.shape[0], dtype=np.int64)[picked])[self._number]
