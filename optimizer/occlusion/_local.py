"""Which layers a change stays local in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.graph import Layer

__all__ = ["is_local"]

# Of torch and of Keras, in lower case and without what says only how many axes there are. What is not here is taken to
# look at everything, so that a name that is missing costs time and no exactness.
_WINDOWED = frozenset({"conv", "depthwiseconv", "separableconv", "maxpool", "avgpool", "maxpooling", "averagepooling"})
_ACTIVATIONS = (
    *("relu", "relu6", "leakyrelu", "prelu", "rrelu", "elu", "selu", "celu", "gelu", "silu", "swish", "mish"),
    *("sigmoid", "tanh", "hardtanh", "hardswish", "hardsigmoid", "softplus", "softsign", "logsigmoid", "threshold"),
    *("clamp", "clip", "activation"),
)
_NORMS = ("batchnorm", "batchnormalization", "normalization", "rescaling")
_SAME = ("dropout", "featuredropout", "alphadropout", "spatialdropout", "identity", "contiguous")
_ARITHMETIC = (
    *("add", "iadd", "sub", "subtract", "mul", "imul", "multiply", "div", "truediv", "neg", "abs", "exp", "sqrt"),
    *("square", "maximum", "minimum"),
)
_MERGES = ("cat", "concat", "concatenate")
_POINTWISE = frozenset((*_ACTIVATIONS, *_NORMS, *_SAME, *_ARITHMETIC, *_MERGES))


def is_local(layer: Layer, changed: Sequence[Layer], axes: int, *, channels_last: bool) -> bool:
    """Whether a change of a patch of its inputs changes a patch of its output.

    Parameters
    ----------
    layer : Layer
    changed : sequence of Layer
        Those of its inputs that have changed.
    axes : int
        Spatial ones.
    channels_last : bool
    """
    if {len(one.output_shape) for one in (layer, *changed)} != {axes + 1}:
        return False
    name = layer.op.lower().replace("_", "")
    # "Conv2d", "MaxPooling2D": how many axes they have is in their windows.
    bare = name.removesuffix("d").rstrip("0123456789")
    if layer.window is not None:
        return bare in _WINDOWED and layer.window.axes == axes

    def spatial(one: Layer) -> tuple[int, ...]:
        return one.output_shape[:-1] if channels_last else one.output_shape[1:]

    # An input that is spread over the axes is seen everywhere.
    return bool({name, bare} & _POINTWISE) and all(spatial(one) == spatial(layer) for one in changed)
