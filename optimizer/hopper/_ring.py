"""Visit orders from a seed alone: a ring of partitions, and where each configuration gets on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Ring"]


class Ring:
    """Every configuration goes round the same ring; each ``p`` in a row get on at ``p`` different places.

    As in a Latin square: ``p`` configurations with equal unit times never want the same partition at once.

    Parameters
    ----------
    seed : int
    partitions : int
        ``p``.
    """

    def __init__(self, seed: int, partitions: int) -> None:
        self._seed = seed
        self._ring = np.random.default_rng((seed, 0)).permutation(partitions)
        # The place of each partition on the ring.
        self.place = np.argsort(self._ring)

    def start(self, config: int) -> int:
        """Where on the ring a configuration gets on: by the seed and its own place alone, not by who else is there."""
        lap, step = divmod(config, len(self._ring))
        return int(np.random.default_rng((self._seed, 1, lap)).permutation(len(self._ring))[step])

    def order(self, config: int) -> NDArray[np.intp]:
        """The partitions in the order in which a configuration comes to them."""
        return np.roll(self._ring, -self.start(config))
