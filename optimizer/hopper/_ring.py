"""Visit orders derived from a seed: a ring of partitions, and the place where each configuration starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Ring", "Rings"]


class Ring:
    """Ring of partitions that every configuration follows; each lap of ``p`` starts at ``p`` different places.

    As in a Latin square, ``p`` configurations with equal unit times never need the same partition at once.
    """

    def __init__(self, seed: int, partitions: int) -> None:
        self._seed = seed
        self._ring = np.random.default_rng((seed, 0)).permutation(partitions)
        # Place on the ring, by partition.
        self.place = np.argsort(self._ring)

    def start(self, config: int) -> int:
        """Return the place where a configuration starts; the seed and its number alone decide it."""
        lap, step = divmod(config, len(self._ring))
        return int(np.random.default_rng((self._seed, 1, lap)).permutation(len(self._ring))[step])

    def order(self, config: int) -> NDArray[np.intp]:
        """Return the partitions in the order in which a configuration visits them."""
        return np.roll(self._ring, -self.start(config))


class Rings:
    """The ring of each epoch, by its number; each is drawn from a seed of its own.

    Each later epoch uses the next seed.
    """

    def __init__(self, seed: int, partitions: int) -> None:
        self._seed = seed
        self._partitions = partitions
        self._rings: dict[int, Ring] = {}

    def __getitem__(self, epoch: int) -> Ring:
        if epoch not in self._rings:
            self._rings[epoch] = Ring(self._seed + epoch, self._partitions)
        return self._rings[epoch]
