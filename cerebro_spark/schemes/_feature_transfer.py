"""Feature transfer: a frozen network whose layers a new head reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cerebro_spark.schemes._networks import framework_module, module_paths
from optimizer.arguments import one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.handlers import TensorSpec

__all__ = ["COMBINATIONS", "feature_transfer"]

COMBINATIONS = ("last", "sum", "weighted_sum", "concat")
"""Ways to make one tensor of the features of several layers."""


def feature_transfer(
    net: Any,
    layers: Any,
    combine: str = "last",
    head: Any = None,
    *,
    inputs: Sequence[TensorSpec] | None = None,
) -> Any:
    """Freeze a network and train a head on the features of one or several of its layers (Nautilus, Table 3, FTR).

    The layers above the topmost of `layers` are removed: the model neither computes nor stores them.

    Parameters
    ----------
    net : torch.nn.Module or keras.Model
        Pre-trained network; a Keras model must be functional or sequential. It is not changed: the model contains a
        copy, which shares the memory of the weights in torch.
    layers : str, sequence of str, or layers of a card
        Names of layers of the traced graph or paths of modules (``"encoder.layer.5"``); for Keras, names of layers.
        The result of ``roster.card(...).resolve(...)`` is accepted as well. The order has no effect.
    combine : {"last", "sum", "weighted_sum", "concat"}
        Combination of the features of several layers: the topmost layer (default); their sum; their sum with one
        trainable weight per layer, initialized to the mean; or the concatenation of their channels, projected to the
        width of the topmost layer by a trainable layer. See Devlin et al. 2019, table 7.
    head : torch.nn.Module or keras.Layer
        Trainable layers that take the features. In torch, further parameters of ``forward`` with the name of an input
        of the network receive this input, such as ``attention_mask`` of :class:`TransformerHead`.
    inputs : sequence of TensorSpec, optional
        Inputs of the torch network. Required if torch.fx cannot trace the network, such as one of ``transformers``, and
        for ``"concat"`` if no module specifies the width of a layer.

    Returns
    -------
    torch.nn.Module or keras.Model
        Model with the inputs of `net`; in torch, it is in evaluation mode.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid, or layers to add up differ in width.
    UnknownLayerError
        The network has no such layer; the message lists the layers.
    udfs.handlers.UntraceableModelError
        The network cannot be traced into layers; the message states the reason.

    Examples
    --------
    >>> import torch
    >>> trunk = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> net = feature_transfer(trunk, layers=["1", "3"], combine="concat", head=torch.nn.Linear(8, 2))
    >>> net(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    >>> [name for name, weight in net.named_parameters() if weight.requires_grad]
    ['combine.projection.weight', 'combine.projection.bias', 'head.weight', 'head.bias']
    """
    module = framework_module(net)
    paths = module_paths(layers)
    one_of("combine", combine, COMBINATIONS)
    return module.feature_transfer(net, paths, combine, head, inputs)
