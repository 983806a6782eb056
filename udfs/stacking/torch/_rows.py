"""Rows of a stack: batches of all models, gathered at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from udfs.training import batch_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.training import Rows

__all__ = ["StackedRows"]


class StackedRows:
    """Rows that the models of a stack read: the same object for all, or rows of each model.

    Parameters
    ----------
    rows : sequence of Rows
        Rows of each model.
    orders : sequence of array of int
        Order in which each model reads its rows, of the same or a larger length than the next model's.
    """

    def __init__(self, rows: Sequence[Rows], orders: Sequence[NDArray[np.int64]]) -> None:
        self._rows = rows
        shared = all(each is rows[0] for each in rows)
        self._parts: list[Rows] = [rows[0]] if shared else list(rows)
        starts = np.zeros(len(rows), np.int64)
        if not shared:
            starts = np.cumsum([0, *(each.rows for each in rows[:-1])])
        self._starts = starts
        self.reorder(orders)
        self.inputs = tuple(map(self._joined, zip(*(part.inputs for part in self._parts), strict=True)))
        self.labels = tuple(map(self._joined, zip(*(part.labels for part in self._parts), strict=True)))

    def reorder(self, orders: Sequence[NDArray[np.int64]]) -> None:
        """Set the order in which each model reads its rows, of the same or a larger length than the next model's."""
        self.lengths = [len(order) for order in orders]
        self._orders = orders
        places = np.zeros((len(orders), max(self.lengths, default=0)), np.int64)
        for place, (order, start) in enumerate(zip(orders, self._starts, strict=True)):
            places[place, : len(order)] = order + start
        self._places = torch.from_numpy(places)

    @property
    def is_weighted(self) -> bool:
        """True if rows have weights."""
        return self._rows[0].weights is not None

    def convert_labels(self, convert: Callable[[int, torch.Tensor], torch.Tensor]) -> None:
        """Convert the labels of all rows at once, each label column by its place."""
        self.labels = tuple(convert(place, label) for place, label in enumerate(self.labels))

    def batch(
        self, models: slice, start: int, stop: int
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], list[float], torch.Tensor | None]:
        """Gather the batches of some models.

        Returns
        -------
        tuple
            Inputs and labels, each of shape (models, rows, ...); the sum of the weights of each batch; and the weights
            relative to their mean, of shape (models, rows), or ``None`` if rows have no weights.
        """
        places = self._places[models, start:stop]
        inputs = [array[places] for array in self.inputs]
        labels = [array[places] for array in self.labels]
        if not self.is_weighted:
            return inputs, labels, [float(stop - start)] * len(places), None
        weights = [
            batch_weights(self._rows[model], self._orders[model][start:stop], stop - start)
            for model in range(models.start, models.stop)
        ]
        ones = np.ones(stop - start, np.float32)
        relative = np.stack([ones if each.relative is None else each.relative for each in weights])
        return inputs, labels, [each.total for each in weights], torch.from_numpy(relative)

    @staticmethod
    def _joined(arrays: tuple[Any, ...]) -> torch.Tensor:
        whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return torch.from_numpy(np.ascontiguousarray(whole))
