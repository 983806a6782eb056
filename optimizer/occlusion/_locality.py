"""Classification of layers by whether a local change of their input stays local."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.graph import Layer

__all__ = ["is_broadcasting", "is_local", "is_per_channel"]

# Operator names of torch and Keras, in lower case and without the number of axes. Any other operator is assumed to read
# its whole input, so a missing name costs time but no exactness.
_WINDOWED = frozenset(
    (
        *("conv", "depthwiseconv", "separableconv", "maxpool", "avgpool", "maxpooling", "averagepooling"),
        *("zeropad", "constantpad"),  # a window of one element, with an offset
    )
)
_ACTIVATIONS = (
    *("relu", "relu6", "leakyrelu", "prelu", "rrelu", "elu", "selu", "celu", "gelu", "silu", "swish", "mish"),
    *("sigmoid", "tanh", "hardtanh", "hardswish", "hardsigmoid", "softplus", "softsign", "logsigmoid", "threshold"),
    *("activation",),
)
_NORMS = ("batchnorm", "batchnormalization", "normalization", "rescaling", "channelnorm")
_SAME = (
    *("dropout", "featuredropout", "alphadropout", "spatialdropout", "identity", "contiguous", "clone", "detach"),
    *("float", "double", "to", "tocopy"),
)
_ARITHMETIC = (
    *("add", "iadd", "sub", "subtract", "mul", "imul", "multiply", "div", "truediv", "neg", "abs", "exp", "sqrt"),
    *("square", "maximum", "minimum", "clamp", "clampmin", "clampmax", "clip", "pow", "rsub", "where", "log", "log1p"),
    *("reciprocal", "rsqrt", "erf", "sin", "cos", "sign", "truedivide"),
)
_MERGES = ("cat", "concat", "concatenate")
_PER_CHANNEL = frozenset(("prelu", *_NORMS))
_BROADCASTING = frozenset(_ARITHMETIC)
_POINTWISE = frozenset((*_ACTIVATIONS, *_NORMS, *_SAME, *_ARITHMETIC, *_MERGES))


def is_local(layer: Layer, changed: Sequence[Layer], axes: int, *, channels_last: bool) -> bool:
    """Return whether a changed patch of a layer's inputs changes only a patch of its output."""
    if {len(tensor.output_shape) for tensor in (layer, *changed)} != {axes + 1}:
        return False
    name, bare = _names(layer)
    if layer.window is not None:
        return bare in _WINDOWED and layer.window.axes == axes

    def spatial(tensor: Layer) -> tuple[int, ...]:
        return tensor.output_shape[:-1] if channels_last else tensor.output_shape[1:]

    # An input that is broadcast over the axes changes every element.
    return bool({name, bare} & _POINTWISE) and all(spatial(below) == spatial(layer) for below in changed)


def is_broadcasting(layer: Layer) -> bool:
    """Return whether a layer's operands broadcast: a constant with spatial axes has a value per element of a patch."""
    return not _BROADCASTING.isdisjoint(_names(layer))


def is_per_channel(layer: Layer) -> bool:
    """Return whether a layer's constants are vectors with a value per channel, for any other axes of the operand."""
    return not _PER_CHANNEL.isdisjoint(_names(layer))


def _names(layer: Layer) -> tuple[str, str]:
    name = layer.op.lower().replace("_", "")
    # "Conv2d", "MaxPooling2D": the window has the number of axes.
    return name, name.removesuffix("d").rstrip("0123456789")
