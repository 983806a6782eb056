"""Houlsby's adapters: small bottlenecks within the blocks of a frozen BERT."""

from __future__ import annotations

from typing import Any

from cerebro_spark.schemes._networks import adapters, check_count

__all__ = ["houlsby"]


def houlsby(net: Any, top: int, bottleneck: int = 64, head: Any = None) -> Any:
    """Put adapters into the last blocks of a frozen BERT (Houlsby et al., ICML 2019; Nautilus, Table 3, ATR).

    Each block gets two, after its two projections and before the residual connection: an adapter of width ``d`` and
    bottleneck ``m`` is ``h + up(gelu(down(h)))``, with ``2 d m + d + m`` parameters. The adapters learn, and so do the
    layer norms of these blocks. Adapters begin as almost nothing (weights of deviation 0.001, as the authors' code), so
    that the untrained model computes what the network does.

    Parameters
    ----------
    net : torch.nn.Module
        An encoder of BERT's kind: of the roster (``minilm_l6``, a folder by ``roster.text_encoder``), or ``BertModel``
        and ``RobertaModel`` of ``transformers``. It stays as it is.
    top : int
        Number of blocks with adapters, counted from the top.
    bottleneck : int
        Width within an adapter. Default 64.
    head : torch.nn.Module, optional
        Reads the last block's tokens; as for :func:`feature_transfer`. Default ``None``: the encoder's own outputs.

    Returns
    -------
    torch.nn.Module
        In evaluation mode.

    Raises
    ------
    InvalidArgumentError
        The network is no such encoder, or has fewer blocks.

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
    count, width = check_count("top", top), check_count("bottleneck", bottleneck)
    return module.houlsby(net, count, width, head)
