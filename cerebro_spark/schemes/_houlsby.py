"""Houlsby's adapters: small bottlenecks within the blocks of a frozen BERT."""

from __future__ import annotations

from typing import Any

from cerebro_spark.schemes._networks import adapters
from optimizer.arguments import whole

__all__ = ["houlsby"]


def houlsby(net: Any, top: int, bottleneck: int = 64, head: Any = None) -> Any:
    """Insert adapters into the last blocks of a frozen BERT (Houlsby et al., ICML 2019; Nautilus, Table 3, ATR).

    Each block gets two adapters, after its two projections and before the residual connection. An adapter of width
    ``d`` and bottleneck ``m`` computes ``h + up(gelu(down(h)))`` and has ``2 d m + d + m`` parameters. The adapters and
    the layer norms of these blocks are trainable. The initial weights have a standard deviation of 0.001, as in the
    authors' code, so that the untrained model computes almost the same as the network.

    Parameters
    ----------
    net : torch.nn.Module
        BERT encoder: from the roster (``minilm_l6``, or a folder with ``roster.text_encoder``), or a ``BertModel`` or
        ``RobertaModel`` of ``transformers``. It is not changed.
    top : int
        Number of blocks with adapters, counted from the top.
    bottleneck : int
        Width of the bottleneck of an adapter. Default 64.
    head : torch.nn.Module, optional
        Trainable layers that take the tokens of the last block; see :func:`feature_transfer`. Default ``None``: the
        model returns the outputs of the encoder.

    Returns
    -------
    torch.nn.Module
        Model with the inputs of `net`, in evaluation mode.

    Raises
    ------
    InvalidArgumentError
        The network is not a BERT encoder, or has fewer blocks.

    Examples
    --------
    >>> from cerebro_spark.schemes import SequenceHead
    >>> from vista_spark import roster
    >>> net = houlsby(roster.load("minilm_l6"), top=2, bottleneck=16, head=SequenceHead(384, classes=2))
    >>> adapters = [weight for name, weight in net.named_parameters() if ".adapter." in name]
    >>> sum(weight.numel() for weight in adapters) == 2 * 2 * (2 * 384 * 16 + 384 + 16)
    True
    """
    module = adapters(net, "houlsby")
    count, width = whole("top", top), whole("bottleneck", bottleneck)
    return module.houlsby(net, count, width, head)
