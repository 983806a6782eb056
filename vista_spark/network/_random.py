"""Warning about networks without trained weights."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from vista_spark.errors import RandomWeightsWarning

if TYPE_CHECKING:
    from vista_spark.roster import ModelCard

__all__ = ["has_random_weights", "is_shipped", "warn_of_random_weights"]

# Modules of the roster's own builders. A user's builder may bring trained weights.
_ROSTER = "udfs.roster."


def has_random_weights(card: ModelCard, weights: object) -> bool:
    """Return whether the roster draws a network's weights at random; ``None`` stands for random weights."""
    return weights is None and is_shipped(card)


def is_shipped(card: ModelCard) -> bool:
    """Return whether a card's network is one of the roster's architectures."""
    builder = getattr(card.builder, "func", card.builder)  # of a partial
    return str(getattr(builder, "__module__", "")).startswith(_ROSTER)


def warn_of_random_weights(card: ModelCard, weights: object, seed: int) -> None:
    """Warn, once per network, that the roster draws its weights at random.

    Called on the driver by everything that runs a network over a user's data. Profiles and plans are the same for all
    weights, and do not warn.
    """
    if not has_random_weights(card, weights):
        return
    # All callers share this line: Python's default filter then shows the message once per network.
    warnings.warn(
        f"model {card.name!r} has random weights, drawn from seed {seed}: its outputs say nothing of the data. Pass "
        "weights=, the path or URI of trained ones",
        RandomWeightsWarning,
        stacklevel=1,
    )
