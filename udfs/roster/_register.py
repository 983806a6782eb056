"""Models of a user's own in the roster of this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError, UnknownLayerError
from udfs.handlers import framework
from udfs.roster._registry import add, names
from udfs.roster._resolve import settle
from udfs.roster._text_builtin import folder_card

if TYPE_CHECKING:
    from udfs.roster._card import ModelCard

__all__ = ["register", "text_encoder"]


def register(model: ModelCard, overwrite: bool = False) -> None:
    """Add a model of your own to the roster of this process.

    Parameters
    ----------
    model : ModelCard
        Its layers and number of parameters are checked against its network; those that it leaves out are found.
    overwrite : bool
        Replace a model of the same name; :func:`unregister` restores one that ships.

    Raises
    ------
    InvalidArgumentError
        The name is taken, the framework is unknown, or the number of parameters is not the network's.
    UnknownLayerError
        A layer's module is not in the network, or gives no tensor, or several of them as an LSTM does.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from vista_spark.roster import card, unregister
    >>> register(replace(card("alexnet"), name="my_alexnet"))
    >>> "my_alexnet" in names()
    True
    >>> unregister("my_alexnet")
    """
    if model.name in names() and not overwrite:
        raise InvalidArgumentError(f"the roster has a model {model.name!r}; pass overwrite=True to replace it")
    settled = settle(model)
    backend, inputs = framework(settled.framework), settled.preprocessing.inputs
    network = settled.skeleton()
    paths = backend.paths(network, inputs)
    for layer in settled.layers:
        if layer.module not in paths:
            where = f"the network of model {model.name!r}, of what gives one tensor at inference"
            raise UnknownLayerError(layer.module, paths, where)
    parameters = backend.parameters(network)
    if parameters != settled.parameters:
        raise InvalidArgumentError(
            f"model {model.name!r} has {parameters} parameters, its card says {model.parameters}"
        )
    # Its builder stays: what that hands out is copied whenever the model is used, with its weights of then.
    filled = replace(model, layers=settled.layers, parameters=settled.parameters, framework=settled.framework)
    add(model if filled == model else filled)


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
        Registered card: ``layer1`` is the lowest block.

    Raises
    ------
    InvalidArgumentError
        The name is taken, or the network is of another kind, or has an unknown activation.
    udfs.weights.WeightsError
        There is no such folder, or no ``config.json`` in it.

    Examples
    --------
    >>> import json, tempfile
    >>> from vista_spark.roster import unregister
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
