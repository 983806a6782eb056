"""Fine-tuning: the top blocks of a network learn, those below stay frozen."""

from __future__ import annotations

from typing import Any

from cerebro_spark.schemes._networks import check_count, framework_module, module_paths

__all__ = ["fine_tune"]


def fine_tune(net: Any, top: int, head: Any = None, *, blocks: Any = None) -> Any:
    """Freeze a network but for its last blocks, and put a new head on it (Nautilus, Table 3, FTU).

    The head takes the place of the network's last fully-connected layer: it reads what that one reads. A network that
    does not end in one, as an encoder, gives the head its first output.

    Parameters
    ----------
    net : torch.nn.Module or keras.Model
        It stays as it is. Of Keras, a functional or sequential one.
    top : int
        Number of blocks that learn, counted from the top.
    head : torch.nn.Module or keras.Layer, optional
        See :func:`feature_transfer`. Default ``None``: the network keeps its own top, which learns too.
    blocks : sequence of str or layers of a card, optional
        The blocks from the bottom to the top, as paths of modules; ``roster.card("resnet50").layers`` for example. By
        default, of an encoder of BERT's kind its blocks; of other networks of torch, the modules with weights that no
        other one contains, containers opened first, then, where there are fewer than five, other modules too; a norm
        belongs to the block before it. Of Keras, the layers with weights, but norms.

    Returns
    -------
    torch.nn.Module or keras.Model
        In torch in evaluation mode. It takes what `net` does.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid; the network has fewer blocks; or a block that is to learn does something in training
        that its modules do not show, as functional dropout.
    UnknownLayerError
        One of `blocks` is not there.
    udfs.handlers.UntraceableModelError
        The network cannot be opened into layers to put a head on it; the message says why.

    Examples
    --------
    >>> from torch import nn
    >>> trunk = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 9))
    >>> net = fine_tune(trunk, top=1, head=nn.Linear(8, 2))
    >>> [name for name, weight in net.named_parameters() if weight.requires_grad]
    ['trunk.2.weight', 'trunk.2.bias', 'head.weight', 'head.bias']
    """
    module = framework_module(net)
    count = check_count("top", top)
    return module.fine_tune(net, count, head, None if blocks is None else module_paths(blocks, "blocks"))
