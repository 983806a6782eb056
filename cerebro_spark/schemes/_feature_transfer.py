"""Feature transfer: a frozen network whose layers a new head reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.schemes._networks import framework_module, module_paths
from optimizer.errors import nearest

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
    """Freeze a network, and train a head on the features of one of its layers or several (Nautilus, Table 3, FTR).

    What lies above the topmost of `layers` is left out: it is neither computed nor held.

    Parameters
    ----------
    net : torch.nn.Module or keras.Model
        It stays as it is: the model has a copy, in torch on the same memory. Of Keras, a functional or sequential one.
    layers : str, sequence of str, or layers of a card
        Names of layers of the traced graph or paths of modules (``"encoder.layer.5"``); of Keras, names of layers. What
        ``roster.card(...).resolve(...)`` gives is read too. Their order makes no difference.
    combine : {"last", "sum", "weighted_sum", "concat"}
        Combination of the features of several layers: take the topmost (default); add them up; add them up with a
        weight a layer that learns and begins as their mean; or put their channels side by side, and project them to the
        width of the topmost layer by a layer that learns. These are the ways of Devlin et al. 2019, table 7.
    head : torch.nn.Module or keras.Layer
        Takes the features. In torch, further parameters of its ``forward`` that are named as inputs of the network are
        given those: ``attention_mask`` of :class:`TransformerHead`.
    inputs : sequence of TensorSpec, optional
        Inputs of the torch network. Needed where torch.fx cannot open it, as it cannot a network of
        ``transformers``; and for ``"concat"`` where no module says how wide a layer is.

    Returns
    -------
    torch.nn.Module or keras.Model
        In torch in evaluation mode. It takes what `net` does.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid, or the layers differ in width and are to be added up.
    UnknownLayerError
        The network has no such layer; the message lists those that there are.
    udfs.handlers.UntraceableModelError
        The network cannot be opened into layers; the message says why.

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
    if combine not in COMBINATIONS:
        raise InvalidArgumentError(
            f"combine={combine!r}{nearest(str(combine), COMBINATIONS)}; it is one of {', '.join(COMBINATIONS)}"
        )
    return module.feature_transfer(net, paths, combine, head, inputs)
