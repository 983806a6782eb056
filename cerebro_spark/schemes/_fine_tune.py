"""Fine-tuning: the top blocks of a network learn, those below stay frozen."""

from __future__ import annotations

from typing import Any

from cerebro_spark.schemes._networks import framework_module, module_paths
from optimizer.arguments import whole

__all__ = ["fine_tune"]


def fine_tune(net: Any, top: int, head: Any = None, *, blocks: Any = None) -> Any:
    """Freeze a network except for its last blocks, and replace its head (Nautilus, Table 3, FTU).

    The head replaces the last fully connected layer of the network and takes its input. If the network does not end in
    such a layer, as an encoder, the head takes the first output of the network.

    Parameters
    ----------
    net : torch.nn.Module or keras.Model
        Pre-trained network, which is not changed. A Keras model must be functional or sequential.
    top : int
        Number of trainable blocks, counted from the top.
    head : torch.nn.Module or keras.Layer, optional
        See :func:`feature_transfer`. Default ``None``: the network keeps its own head, which is trainable.
    blocks : sequence of str or layers of a card, optional
        Blocks from the bottom to the top, as paths of modules; for example ``roster.card("resnet50").layers``. Default:
        the blocks of a BERT encoder; for other torch networks, the modules with weights that no other module contains,
        where containers are opened first and other modules are added if there are fewer than five, and a norm belongs
        to the block before it; for Keras, the layers with weights except norms.

    Returns
    -------
    torch.nn.Module or keras.Model
        Model with the inputs of `net`; in torch, it is in evaluation mode.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid; the network has fewer blocks; or a trainable block depends on the training mode in a
        way that its modules do not show, such as functional dropout.
    UnknownLayerError
        One of `blocks` does not exist.
    udfs.handlers.UntraceableModelError
        The network cannot be traced into layers to replace the head; the message states the reason.

    Examples
    --------
    >>> from torch import nn
    >>> trunk = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 9))
    >>> net = fine_tune(trunk, top=1, head=nn.Linear(8, 2))
    >>> [name for name, weight in net.named_parameters() if weight.requires_grad]
    ['trunk.2.weight', 'trunk.2.bias', 'head.weight', 'head.bias']
    """
    module = framework_module(net)
    count = whole("top", top)
    return module.fine_tune(net, count, head, None if blocks is None else module_paths(blocks, "blocks"))
