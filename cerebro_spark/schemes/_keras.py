"""The schemes for networks of Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from cerebro_spark.errors import InvalidArgumentError
from optimizer.errors import UnknownLayerError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from udfs.handlers import TensorSpec

__all__ = ["feature_transfer", "fine_tune"]

_NORMS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
)
# Layers with random numbers in training, trainable or not. In a frozen part they would change its output every epoch.
_DRAWING = (
    keras.layers.AlphaDropout,
    keras.layers.Dropout,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
)


def feature_transfer(
    net: Any, layers: Sequence[str], combine: str, head: Any, inputs: Sequence[TensorSpec] | None
) -> Any:
    """Attach a head to features; see :func:`cerebro_spark.schemes.feature_transfer`."""
    del inputs  # a Keras model has its own
    order = _names(net)
    unknown = [name for name in layers if name not in order]
    if unknown:
        raise UnknownLayerError(unknown[0], order, net.name)
    copied = _copied(net, learning=())
    features = [_tensor(copied, name, "output") for name in sorted(layers, key=order.index)]
    return _with_head(copied, _combined(features, combine, layers), head)


def fine_tune(net: Any, top: int, head: Any, blocks: Sequence[str] | None) -> Any:
    """Make the last blocks trainable; see :func:`cerebro_spark.schemes.fine_tune`."""
    order = _names(net)
    classifier = _classifier(net)
    listed = _blocks(net) if blocks is None else [[name] for name in blocks]
    unknown = [name for block in listed for name in block if name not in order]
    if unknown:
        raise UnknownLayerError(unknown[0], order, net.name)
    listed = [block for block in listed if block != [classifier]]
    if top > len(listed):
        named = ", ".join(block[0] for block in listed) or "none"
        raise InvalidArgumentError(f"top must be at most {len(listed)}, the blocks of {net.name} ({named}), got {top}")
    learning = {name for block in listed[-top:] for name in block}
    if head is None:
        last = max(order.index(name) for name in listed[-1])
        return _copied(net, learning={*learning, *order[last + 1 :]})
    copied = _copied(net, learning=learning)
    below = copied.outputs[0] if classifier is None else _tensor(copied, classifier, "input")
    return _with_head(copied, below, head)


def _names(net: Any) -> list[str]:
    if not getattr(net, "inputs", None):
        raise InvalidArgumentError(
            f"the model {net.name!r} has layers within its call(), where no scheme finds them: give a functional model "
            "or a built sequential one; or set layer.trainable = False yourself, and hand the model to ModelTrainer"
        )
    return [layer.name for layer in net.layers]


def _copied(net: Any, learning: Collection[str]) -> Any:
    """Copy a model with only the layers in `learning` trainable, without the dropout below all of them."""
    places = [place for place, layer in enumerate(net.layers) if layer.name in learning]
    below = {layer.name for layer in net.layers[: min(places, default=len(net.layers))]}

    def copy(layer: Any) -> Any:
        if layer.name in below and isinstance(layer, _DRAWING):
            return keras.layers.Identity(name=layer.name)
        return layer.__class__.from_config(layer.get_config())

    copied = keras.models.clone_model(net, clone_function=copy)
    for target, source in zip(copied.layers, net.layers, strict=True):
        target.set_weights(source.get_weights())
        target.trainable = source.name in learning
    return copied


def _tensor(model: Any, name: str, attribute: str) -> Any:
    try:
        return getattr(model.get_layer(name), attribute)
    except (AttributeError, ValueError) as error:
        raise InvalidArgumentError(
            f"layer {name!r} runs several times, so that it has no single {attribute}"
        ) from error


def _combined(features: Sequence[Any], combine: str, layers: Sequence[str]) -> Any:
    if combine == "last" or (len(features) == 1 and combine == "sum"):
        return features[-1]
    widths = [tensor.shape[-1] for tensor in features]
    if combine == "concat":
        joined = keras.layers.Concatenate(name="concatenation")(features) if len(features) > 1 else features[0]
        return keras.layers.Dense(widths[-1], name="projection")(joined)
    if len({tuple(tensor.shape) for tensor in features}) > 1:
        told = ", ".join(f"{name} has {width}" for name, width in zip(layers, widths, strict=True))
        raise InvalidArgumentError(f'combine={combine!r} of layers of several shapes ({told}): combine="concat"')
    if combine == "sum":
        return keras.layers.Add(name="sum")(features)
    begin = keras.initializers.Constant(1 / len(features))
    weighted = keras.layers.Dense(1, use_bias=False, kernel_initializer=begin, name="weighted_sum")
    return keras.ops.squeeze(weighted(keras.ops.stack(features, axis=-1)), -1)


def _with_head(copied: Any, below: Any, head: Any) -> Any:
    if not isinstance(head, keras.Layer):
        raise InvalidArgumentError(
            f"head must be a keras.Layer or keras.Model of the features, such as keras.layers.Dense(5), got {head!r}"
        )
    # In the structure in which the model takes them; a sequential one takes one tensor.
    inputs = copied.inputs[0] if isinstance(copied, keras.Sequential) else copied.input
    return keras.Model(inputs, head(below))


def _blocks(net: Any) -> list[list[str]]:
    blocks: list[list[str]] = []
    for layer in net.layers:
        if blocks and isinstance(layer, _NORMS):
            blocks[-1].append(layer.name)
        elif layer.weights:
            blocks.append([layer.name])
    return blocks


def _classifier(net: Any) -> str | None:
    """Name the fully-connected layer that the output comes of, by way of layers without weights."""
    symbol = net.outputs[0]
    while True:
        operation, _, _ = symbol._keras_history  # noqa: SLF001 - Keras's record of who made it; has no other reader
        if isinstance(operation, keras.layers.Dense):
            return str(operation.name)
        below = operation.input if not getattr(operation, "weights", None) else None
        if below is None or isinstance(operation, keras.layers.InputLayer) or isinstance(below, (list, dict)):
            return None
        symbol = below
