"""Networks of the roster with their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.handlers import framework, framework_of
from udfs.roster._card import ModelCard
from udfs.roster._resolve import of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import torch

__all__ = ["load"]


def load(
    model: Any,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    seed: int = 0,
) -> Any:
    """Build a network and give it its weights, ready for inference.

    Parameters
    ----------
    model : str, ModelCard, or a model
        See :func:`vista_spark.roster.of`. A process does not know the models that another one registered, but a card
        can be sent to it.
    weights : str, path or mapping, optional
        Path or URI of a state dict (see :func:`udfs.weights.read_state_dict`), or the state dict itself. The keys must
        be exactly the network's, which are torchvision's. For a Keras model, path or URI of a ``.weights.h5``, ``.h5``
        or ``.keras`` file (see :func:`udfs.weights.keras.fit_weights`). By default the card's own, or random ones.
    seed : int
        Seed of the random weights: equal seeds give equal weights. The state of global generators does not change.

    Returns
    -------
    torch.nn.Module or keras.Model
        On the CPU. A torch module is in evaluation mode and without gradients; its weights are memory-mapped where the
        file allows it, and shared by the processes of a node.

    Raises
    ------
    UnknownModelError
        There is no such model.
    udfs.weights.WeightsError
        The weights cannot be read, or do not fit: the message lists the keys that are missing, unexpected or misshapen.

    Examples
    --------
    >>> import torch
    >>> network = load("squeezenet1_1", seed=7)
    >>> network(torch.zeros(2, 3, 224, 224)).shape
    torch.Size([2, 1000])
    """
    # A card is sent to workers as it was settled on the driver: they need not find out again what its builder does.
    entry = model if isinstance(model, ModelCard) and framework_of(model.builder) is None else of(model)
    maker, inputs = framework(entry.framework), entry.preprocessing.inputs
    weights = entry.weights if weights is None else weights
    if weights is None:
        return maker.build(entry.builder, inputs, seed)
    return maker.load(entry.builder, inputs, weights, seed, entry.name)
