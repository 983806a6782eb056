"""Which models there are, and how one gets its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from optimizer.errors import UnknownLayerError
from udfs.weights import fit_state_dict, read_state_dict
from vista_spark.errors import InvalidArgumentError, UnknownModelError
from vista_spark.roster._builtin import BUILT_IN

if TYPE_CHECKING:
    import os

    import torch
    from torch import nn

    from vista_spark.roster._card import ModelCard

__all__ = ["card", "load", "names", "register", "unregister"]

_registered: dict[str, ModelCard] = {}


def names() -> tuple[str, ...]:
    """Names of the models: those that ship, then those that were registered.

    Examples
    --------
    >>> names()[:3]
    ('alexnet', 'vgg16', 'resnet18')
    """
    return tuple({**BUILT_IN, **_registered})


def card(name: str) -> ModelCard:
    """Find a model's card.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Raises
    ------
    UnknownModelError
        There is no such model; the message lists those that there are, and the nearest.

    Examples
    --------
    >>> card("resnet50").preprocessing.shape
    (3, 224, 224)
    """
    found = _registered.get(name) or BUILT_IN.get(name)
    if found is None:
        raise UnknownModelError(name, names())
    return found


def load(
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    seed: int = 0,
) -> nn.Module:
    """Build a network and give it its weights, ready for inference.

    Parameters
    ----------
    model : str or ModelCard
        One of :func:`names`, or a card: what was registered in one process is not registered in another, but its card
        travels.
    weights : str, path or mapping, optional
        Path or URI of a state dict (see :func:`udfs.weights.read_state_dict`), or the state dict itself. The keys must
        be exactly the network's, which are torchvision's. By default, random weights.
    seed : int
        Of the random weights: the same seed gives the same weights. torch's global generator is left as it was.

    Returns
    -------
    torch.nn.Module
        On the CPU, in evaluation mode, without gradients. Weights from a file that can be memory-mapped are, and the
        processes of a node share them.

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
    entry = card(model) if isinstance(model, str) else model
    if weights is None:
        return _random(entry, seed)
    state = weights if isinstance(weights, Mapping) else read_state_dict(weights)
    network = entry.skeleton()
    fit_state_dict(network, state, entry.name)
    if any(buffer.device.type == "meta" for buffer in network.buffers()):
        # A buffer outside the state dict has its value from the builder alone.
        network = _random(entry, seed)
        fit_state_dict(network, state, entry.name)
    return network.eval().requires_grad_(False)


def _random(entry: ModelCard, seed: int) -> nn.Module:
    import torch  # noqa: PLC0415  (an optional extra)

    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reseed the accelerators too, and nothing would put those back.
        torch.default_generator.manual_seed(seed)
        return entry.builder().eval().requires_grad_(False)


def register(model: ModelCard, overwrite: bool = False) -> None:
    """Add a model of your own to the roster of this process.

    Parameters
    ----------
    model : ModelCard
        Its layers and its number of parameters are checked against its network.
    overwrite : bool
        Replace a model of the same name; one that ships comes back with :func:`unregister`.

    Raises
    ------
    InvalidArgumentError
        The name is taken, or the number of parameters is not the network's.
    UnknownLayerError
        A layer's module is not in the network.

    Examples
    --------
    >>> from dataclasses import replace
    >>> register(replace(card("alexnet"), name="my_alexnet"))
    >>> "my_alexnet" in names()
    True
    >>> unregister("my_alexnet")
    """
    if model.name in names() and not overwrite:
        raise InvalidArgumentError(f"the roster has a model {model.name!r}; pass overwrite=True to replace it")
    network = model.skeleton()
    paths = [path for path, _ in network.named_modules() if path]
    for layer in model.layers:
        if layer.module not in paths:
            raise UnknownLayerError(layer.module, paths, f"the network of model {model.name!r}")
    parameters = sum(parameter.numel() for parameter in network.parameters())
    if parameters != model.parameters:
        raise InvalidArgumentError(
            f"model {model.name!r} has {parameters} parameters, its card says {model.parameters}"
        )
    _registered[model.name] = model


def unregister(name: str) -> None:
    """Take a registered model out of the roster; models that ship stay.

    Parameters
    ----------
    name : str
        As registered.

    Raises
    ------
    UnknownModelError
        It was not registered.
    """
    if name not in _registered:
        raise UnknownModelError(name, _registered)
    del _registered[name]
