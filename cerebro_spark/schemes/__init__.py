"""Schemes: ways to adapt a pre-trained network, so that most of it stays frozen (Nautilus, section 2.1 and Table 3).

Each function takes a network of torch or Keras and gives an ordinary model, for a
:class:`cerebro_spark.ModelTrainer`. The network itself stays as it is. What a scheme freezes has ``requires_grad``
(``trainable`` in Keras) false, and its layers have the same expressions in every model made from the same weights, so
that a search can compute them once for all. A model that you froze in part yourself needs no scheme.

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
    """Import what is torch's own when it is asked for: whoever adapts a Keras model may not have torch."""
    if name in {"ImageHead", "SequenceHead", "TransformerHead"}:
        from cerebro_spark.schemes import _heads

        return getattr(_heads, name)
    if name == "token_loss":
        from cerebro_spark.schemes._token_loss import token_loss

        return token_loss
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
