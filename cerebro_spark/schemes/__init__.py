"""Schemes that adapt a pre-trained network and keep most of it frozen (Nautilus, section 2.1 and Table 3).

Each function converts a network of torch or Keras to an ordinary model for a :class:`cerebro_spark.ModelTrainer`, and
does not change the network. Frozen layers have ``requires_grad`` (``trainable`` in Keras) set to false, and the same
expressions in all models with the same weights, so that a search computes them once. A model that you freeze yourself
needs no scheme.

Examples
--------
>>> from cerebro_spark.schemes import TransformerHead
>>> from vista_spark import roster
>>> net = feature_transfer(
...     roster.load("minilm_l6"),
...     layers=["encoder.layer.4", "encoder.layer.5"],
...     combine="sum",
...     head=TransformerHead(384, classes=9),
... )
>>> sum(weight.numel() for weight in net.parameters() if weight.requires_grad)
1777929
"""

from typing import TYPE_CHECKING, Any

from cerebro_spark.schemes._feature_transfer import COMBINATIONS, feature_transfer
from cerebro_spark.schemes._fine_tune import fine_tune
from cerebro_spark.schemes._houlsby import houlsby
from cerebro_spark.schemes._residual_adapters import residual_adapters
from udfs.metrics import entity_f1

if TYPE_CHECKING:
    from cerebro_spark.schemes._heads import ImageHead, SequenceHead, TransformerHead
    from cerebro_spark.schemes._token_loss import token_loss

__all__ = [
    "COMBINATIONS",
    "ImageHead",
    "SequenceHead",
    "TransformerHead",
    "entity_f1",
    "feature_transfer",
    "fine_tune",
    "houlsby",
    "residual_adapters",
    "token_loss",
]


def __getattr__(name: str) -> Any:
    """Import names that need torch on first access, since Keras users may not have torch."""
    if name in {"ImageHead", "SequenceHead", "TransformerHead"}:
        from cerebro_spark.schemes import _heads

        return getattr(_heads, name)
    if name == "token_loss":
        from cerebro_spark.schemes._token_loss import token_loss

        return token_loss
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
