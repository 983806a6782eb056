"""Networks of a specialised classifier as stages that compute features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vista_spark.errors import InvalidArgumentError, UnknownModelError
from vista_spark.features import CNNFeaturizer, TextFeaturizer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["as_compacts", "as_featurizer"]


def as_featurizer(argument: str, model: Any) -> CNNFeaturizer | TextFeaturizer:
    """Return the stage that computes the features below a network's classes.

    Raises
    ------
    InvalidArgumentError
        The model is no network.
    """
    if isinstance(model, CNNFeaturizer | TextFeaturizer):
        return model
    card = model.model if hasattr(model, "featurizer") else model  # a variant of a catalog
    try:
        stage = CNNFeaturizer(model=card, layers=-1, pooling="mean")
        layers = stage.open_network().card.layers
    except (InvalidArgumentError, UnknownModelError) as error:
        shown = repr(model) if isinstance(model, str) else type(model).__name__
        raise InvalidArgumentError(
            f"{argument} must be a featurizer, a variant of a catalog, or a network, got {shown}: {error}"
        ) from error
    return stage.setLayers(layers[-2].name) if len(layers) > 1 else stage


def as_compacts(model: Any) -> tuple[CNNFeaturizer | TextFeaturizer, ...]:
    """Return the stages of one compact model or several."""
    several: Sequence[Any] = model if isinstance(model, list | tuple) else [model]
    return tuple(as_featurizer(f"compact[{place}]", each) for place, each in enumerate(several))
