"""Features of rows: what the last layer of a network reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.inference import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from udfs.arrow import NewColumns

__all__ = ["HiddenFeatures", "projected"]


@dataclass(frozen=True, slots=True)
class HiddenFeatures(Prediction):
    """Features of each row, in place of a prediction: the input of the network's last layer with parameters."""

    width: int  # most numbers of a row, see :func:`projected`

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network up to that layer, once a process."""
        del threads
        features = self.network.open_features()

        def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
            return (projected(features(inputs)[0], self.width),)

        return partial(self._predict, run)


def projected(features: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Project features of more than ``width`` numbers onto random directions, which keeps distances approximately.

    References
    ----------
    Johnson, Lindenstrauss: Extensions of Lipschitz mappings into a Hilbert space, 1984.

    Examples
    --------
    >>> projected(np.ones((2, 5), np.float32), 8).shape, projected(np.ones((2, 500), np.float32), 8).shape
    ((2, 5), (2, 8))
    """
    if features.shape[1] <= width:
        return np.ascontiguousarray(features, np.float32)
    directions = np.random.default_rng(0).standard_normal((features.shape[1], width), np.float32)
    return np.asarray(features @ directions / np.sqrt(width), np.float32)
