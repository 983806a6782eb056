"""Networks of Keras: built apart from the process's counters and generators, weights from Keras's own files."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.handlers import handler
from udfs.weights.keras import fit_weights
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    import os

    from vista_spark.roster._architecture import Architecture
    from vista_spark.roster._card import ModelCard

__all__ = ["ARCHITECTURE"]


class _Keras:
    """See :class:`vista_spark.roster._architecture.Architecture`."""

    def skeleton(self, card: ModelCard) -> Any:
        """Build the network; Keras has no device without memory."""
        return self.random(card, 0)

    def paths(self, card: ModelCard, network: Any) -> list[str]:
        """Paths of the layers that give one tensor, in the order in which they give it."""
        traced: Any = handler("keras").trace(network, list(card.preprocessing.inputs))
        return list(traced.paths)

    def run_order(self, card: ModelCard) -> list[str]:
        """Paths as above, of a network built for it."""
        return self.paths(card, self.skeleton(card))

    def parameters(self, network: Any) -> int:
        """Count the scalars as Keras's summary does."""
        return int(network.count_params())

    def random(self, card: ModelCard, seed: int) -> Any:
        """Build with Python's and numpy's generators at a seed, and put them back.

        In a thread of its own: Keras's counters, which name layers, and its policies belong to a thread, so each
        process gives the layers the same names, whatever it built before.
        """
        handler("keras")
        before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002  (the generator of users' initialisers)
        try:
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            with ThreadPoolExecutor(1) as apart:
                return apart.submit(_built, card).result()
        finally:
            random.setstate(before)
            np.random.set_state(numpys)  # noqa: NPY002

    def load(self, card: ModelCard, weights: str | os.PathLike[str] | Mapping[str, Any], seed: int) -> Any:
        """Build, and read a file into it."""
        if isinstance(weights, Mapping):
            raise InvalidArgumentError(
                f"the weights of Keras's model {card.name!r} come from a file (.weights.h5, .h5, .keras), not a mapping"
            )
        network = self.random(card, seed)
        fit_weights(network, weights, card.name)
        return network


def _built(card: ModelCard) -> Any:
    if "input_shape" in inspect.signature(card.builder).parameters:
        return card.builder(input_shape=card.preprocessing.inputs[0].shape)
    return card.builder()


ARCHITECTURE: Architecture = _Keras()
