"""FLOPs of torch's fused attention kernels on the CPU, which torch's own counter does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ATTENTION_FLOPS"]


def _products(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:
    """Count the products of queries with keys, and of weights with values; shapes are (batch, heads, length, width)."""
    batch, heads, length, width = query
    return 2 * batch * heads * length * key[-2] * (width + value[-1])


def _self_attention(query: Sequence[int], *_: Any, **__: Any) -> int:
    """Count four projections and the products; the shape is (batch, length, width).

    Torch takes this path of ``nn.MultiheadAttention`` for one tensor as query, key and value.
    """
    batch, length, width = query
    return 8 * batch * length * width**2 + _products((batch, 1, length, width), query, query)


def _encoder_layer(source: Sequence[int], *arguments: Any, **__: Any) -> int:
    """Count the self-attention and the two linear layers of ``nn.TransformerEncoderLayer``."""
    batch, length, width = source
    hidden: int = arguments[_FIRST_LINEAR][0]
    return _self_attention(source) + 4 * batch * length * width * hidden


# Place of the weight of the first linear layer among the arguments after the source.
_FIRST_LINEAR = 13

ATTENTION_FLOPS: dict[Any, Callable[..., int]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _products,
    torch.ops.aten._native_multi_head_attention: _self_attention,
    torch.ops.aten._transformer_encoder_layer_fwd: _encoder_layer,
}
"""Formulas by operation, for ``FlopCounterMode(custom_mapping=...)``."""
