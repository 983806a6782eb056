"""The models of this process by name, and how they are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.errors import UnknownLayerError
from udfs.handlers import framework
from vista_spark.errors import InvalidArgumentError, UnknownModelError
from vista_spark.roster._builtin import BUILT_IN
from vista_spark.roster._keras_builtin import KERAS_BUILT_IN
from vista_spark.roster._text_builtin import TEXT_BUILT_IN, folder_card

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import torch

    from vista_spark.roster._card import ModelCard

__all__ = ["card", "load", "names", "register", "text_encoder", "unregister"]

_SHIPPED = BUILT_IN | KERAS_BUILT_IN | TEXT_BUILT_IN

_registered: dict[str, ModelCard] = {}


def names() -> tuple[str, ...]:
    """List the models by name: those that ship, then those that were registered.

    Examples
    --------
    >>> names()[:3]
    ('alexnet', 'vgg16', 'resnet18')
    """
    return tuple({**_SHIPPED, **_registered})


def card(name: str) -> ModelCard:
    """Find a model's card.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Raises
    ------
    UnknownModelError
        There is no such model; the message lists the known ones, and the nearest.

    Examples
    --------
    >>> card("resnet50").preprocessing.shape
    (3, 224, 224)
    """
    known = _registered.get(name) or _SHIPPED.get(name)
    if known is None:
        raise UnknownModelError(name, names())
    return known


def load(
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    seed: int = 0,
) -> Any:
    """Build a network and give it its weights, ready for inference.

    Parameters
    ----------
    model : str or ModelCard
        One of :func:`names`, or a card: a process does not know the models that another one registered, but a card can
        be sent to it.
    weights : str, path or mapping, optional
        Path or URI of a state dict (see :func:`udfs.weights.read_state_dict`), or the state dict itself. The keys must
        be exactly the network's, which are torchvision's. For a Keras model, path or URI of a ``.weights.h5``, ``.h5``
        or ``.keras`` file (see :func:`udfs.weights.keras.fit_weights`). By default the card's own, or random ones.
    seed : int
        Of the random weights: equal seeds give equal weights. The state of global generators does not change.

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
    entry = card(model) if isinstance(model, str) else model
    maker, inputs = framework(entry.framework), entry.preprocessing.inputs
    weights = entry.weights if weights is None else weights
    if weights is None:
        return maker.build(entry.builder, inputs, seed)
    return maker.load(entry.builder, inputs, weights, seed, entry.name)


def register(model: ModelCard, overwrite: bool = False) -> None:
    """Add a model of your own to the roster of this process.

    Parameters
    ----------
    model : ModelCard
        Its layers and number of parameters are checked against its network.
    overwrite : bool
        Replace a model of the same name; :func:`unregister` restores one that ships.

    Raises
    ------
    InvalidArgumentError
        The name is taken, the framework is unknown, or the number of parameters is not the network's.
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
    maker = framework(model.framework)
    network = model.skeleton()
    paths = maker.paths(network, model.preprocessing.inputs)
    for layer in model.layers:
        if layer.module not in paths:
            raise UnknownLayerError(layer.module, paths, f"the network of model {model.name!r}")
    parameters = maker.parameters(network)
    if parameters != model.parameters:
        raise InvalidArgumentError(
            f"model {model.name!r} has {parameters} parameters, its card says {model.parameters}"
        )
    _registered[model.name] = model


def text_encoder(folder: str, name: str, max_length: int = 128, overwrite: bool = False) -> ModelCard:
    """Add the BERT or RoBERTa of a folder to the roster of this process, with each block's output as a layer.

    Parameters
    ----------
    folder : str
        Path or URI of a folder as ``transformers`` writes it, with ``config.json``, ``model.safetensors`` and
        ``tokenizer.json``: its weights are used unless the user names others.
    name : str
        Key in the roster.
    max_length : int
        Default number of tokens that a text is cut or padded to.
    overwrite : bool
        Replace a model of the same name.

    Returns
    -------
    ModelCard
        As registered: ``layer1`` is the lowest block.

    Raises
    ------
    InvalidArgumentError
        The name is taken, or the network is of another kind, or has an unknown activation.
    udfs.weights.WeightsError
        There is no such folder, or no ``config.json`` in it.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> config = {"model_type": "bert", "vocab_size": 90, "hidden_size": 8, "num_hidden_layers": 2}
    >>> config |= {"num_attention_heads": 2, "intermediate_size": 16}
    >>> config |= {"max_position_embeddings": 32, "type_vocab_size": 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "config.json").write_text(json.dumps(config))
    ...     mine = text_encoder(folder, name="mine")
    >>> [layer.name for layer in mine.layers], mine.preprocessing.max_length
    (['layer1', 'layer2'], 32)
    >>> unregister("mine")
    """
    made = folder_card(folder.rstrip("/"), name, max_length)
    register(made, overwrite)
    return made


def unregister(name: str) -> None:
    """Remove a registered model from the roster; models that ship stay.

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
