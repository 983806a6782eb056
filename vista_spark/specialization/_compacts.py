"""Networks of a specialised classifier as stages that compute features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vista_spark.errors import InvalidArgumentError, UnknownModelError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.network import warn_of_random_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["as_compacts", "as_featurizer", "is_featurizer", "reading", "warn_if_random"]


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


def is_featurizer(stage: Any) -> bool:
    """Return whether a stage computes features of a network."""
    return isinstance(stage, CNNFeaturizer | TextFeaturizer)


def reading(stage: Any, column: str) -> Any:
    """Return a featurizer that reads a column; other models read the columns that they were fitted with."""
    return stage.copy().setInputCol(column) if is_featurizer(stage) else stage


def warn_if_random(stage: Any) -> None:
    """Warn of a featurizer whose network has no weights."""
    if is_featurizer(stage):
        net = stage.open_network()
        warn_of_random_weights(net.card, net.weights, net.seed)
