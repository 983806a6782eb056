"""Last activation of a network, derived from its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.handlers import TracedModel

__all__ = ["Activation", "last_activation"]

# Operations by their names without underscores and in lower case: Softmax, softmax and aten's _softmax are one.
_UNCHANGING = frozenset(
    (
        "alias", "alphadropout", "clone", "contiguous", "detach", "dropout", "dropout1d", "dropout2d", "dropout3d",
        "featurealphadropout", "flatten", "float", "identity", "permute", "ravel", "reshape", "spatialdropout1d",
        "spatialdropout2d", "squeeze", "to", "tocopy", "transpose", "unflatten", "unsqueeze", "view",
    )
)  # fmt: skip
_PROBABILITIES = {
    "softmax": ("softmax", "after a softmax"),
    "softmax2d": ("softmax", "after a softmax"),
    "softmin": ("softmax", "after a softmin"),
    "logsoftmax": ("log_softmax", "after a log-softmax"),
    "sigmoid": ("sigmoid", "after a sigmoid"),
    "hardsigmoid": ("sigmoid", "after a hard sigmoid"),
    "expit": ("sigmoid", "after a sigmoid"),
    "logsigmoid": ("log_sigmoid", "after a log-sigmoid"),
}
_ACTIVATIONS = frozenset(
    (
        "abs", "celu", "clamp", "clampmin", "clampmax", "clip", "cos", "elu", "exp", "exponential", "gelu", "glu",
        "hardshrink", "hardswish", "hardtanh", "leakyrelu", "log", "log1p", "maximum", "minimum", "mish", "normalize",
        "prelu", "relu", "relu6", "rrelu", "selu", "silu", "sin", "softplus", "softshrink", "softsign", "sqrt",
        "square", "swish", "tanh", "tanhshrink", "threshold", "unitnormalization",
    )
)  # fmt: skip
_LINEAR = frozenset(
    (
        "addmm", "bmm", "conv1d", "conv2d", "conv3d", "convolution", "einsum", "lazylinear", "linear",
        "matmul", "mm",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Activation:
    """Kind and description of the last activation of a network, such as "sigmoid" and "after a sigmoid"."""

    kind: str
    described: str = ""

    @property
    def probabilities(self) -> bool:
        """True if the outputs are probabilities, or their logarithms."""
        return self.kind in ("softmax", "log_softmax", "sigmoid", "log_sigmoid")


def last_activation(model: TracedModel, layer: str) -> Activation:
    """Find the activation that computes a layer's tensor, skipping layers that only change its shape.

    A model whose layers contain activations (Keras) has a method ``activation_of(layer)``.

    Examples
    --------
    >>> from torch import nn
    >>> from udfs.handlers import TensorSpec, framework
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 8), nn.LogSoftmax(1), nn.Flatten(), nn.Dropout()).eval()
    >>> last_activation(framework("torch").trace(net, [TensorSpec((1, 8, 8))]), "3")
    Activation(kind='log_softmax', described='after a log-softmax')
    """
    at = model.graph[layer]
    while True:
        operation = _plain(at.op)
        within = getattr(model, "activation_of", lambda _: None)(at.name)
        if operation == "activation" and within == "linear":  # Keras's layer of that name
            operation = "identity"
        elif within is not None:
            operation = _plain(within)
        if operation in _PROBABILITIES:
            return Activation(*_PROBABILITIES[operation])
        if operation in _ACTIVATIONS:
            return Activation("activation", f"after {within or at.op}")
        if operation not in _UNCHANGING or len(at.inputs) != 1:
            return Activation("linear" if operation in _LINEAR else "unknown")
        at = model.graph[at.inputs[0]]


def _plain(operation: str) -> str:
    return operation.replace("_", "").lower()
