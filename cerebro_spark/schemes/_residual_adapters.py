"""Residual adapters: 1 x 1 convolutions beside those of a frozen CNN."""

from __future__ import annotations

from typing import Any

from cerebro_spark.schemes._networks import adapters, module_paths
from optimizer.arguments import whole

__all__ = ["residual_adapters"]


def residual_adapters(net: Any, top: int, head: Any = None, *, blocks: Any = None) -> Any:
    """Insert parallel adapters into the last blocks of a frozen CNN (Rebuffi et al., CVPR 2018, section 3.1).

    Each convolution of these blocks whose kernel is larger than 1 x 1 gets a parallel 1 x 1 convolution with the same
    stride and groups, whose output is added: ``conv(x) + adapter(x)``. The adapters and the batch norms of these blocks
    are trainable, as in Rebuffi et al., NIPS 2017. The initial weights are zero, so that the untrained model computes
    the same as the network.

    Parameters
    ----------
    net : torch.nn.Module
        Pre-trained network, which is not changed.
    top : int
        Number of blocks with adapters, counted from the top.
    head : torch.nn.Module, optional
        See :func:`fine_tune`.
    blocks : sequence of str or layers of a card, optional
        See :func:`fine_tune`.

    Returns
    -------
    torch.nn.Module
        Model with the inputs of `net`, in evaluation mode.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid, or these blocks have no such convolution.
    udfs.handlers.UntraceableModelError
        The network cannot be traced into layers to replace the head; the message states the reason.

    Examples
    --------
    >>> import torch
    >>> trunk = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 6, 3))
    >>> net = residual_adapters(trunk, top=1)
    >>> [(name, tuple(weight.shape)) for name, weight in net.named_parameters() if weight.requires_grad]
    [('2.adapter.weight', (6, 4, 1, 1))]
    """
    module = adapters(net, "residual_adapters")
    paths = None if blocks is None else module_paths(blocks, "blocks")
    return module.residual_adapters(net, whole("top", top), head, paths)
