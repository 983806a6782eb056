"""Layers of Keras that are known to keep the records of a batch apart, whatever their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras import layers

if TYPE_CHECKING:
    from udfs.handlers.keras._capture import Step

__all__ = ["keeps_records_apart"]

# In inference mode.
_APART = frozenset(
    {
        *(layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.DepthwiseConv1D, layers.DepthwiseConv2D),
        *(layers.SeparableConv1D, layers.SeparableConv2D, layers.Conv1DTranspose, layers.Conv2DTranspose),
        *(layers.MaxPooling1D, layers.MaxPooling2D, layers.AveragePooling1D, layers.AveragePooling2D),
        *(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D),
        *(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D),
        *(layers.ZeroPadding1D, layers.ZeroPadding2D, layers.Cropping1D, layers.Cropping2D),
        *(layers.UpSampling1D, layers.UpSampling2D, layers.Flatten, layers.Reshape, layers.Permute),
        *(layers.RepeatVector, layers.Dense, layers.Embedding, layers.BatchNormalization, layers.Rescaling),
        *(layers.Activation, layers.ReLU, layers.LeakyReLU, layers.ELU, layers.PReLU),
        *(layers.Dropout, layers.SpatialDropout1D, layers.SpatialDropout2D, layers.GaussianNoise),
        *(layers.Add, layers.Subtract, layers.Multiply, layers.Average, layers.Maximum, layers.Minimum),
        *(layers.Concatenate, layers.LSTM, layers.GRU, layers.SimpleRNN),
    }
)


def keeps_records_apart(step: Step) -> bool:
    """Return whether a step certainly computes a record independently of its batch, except for rounding.

    Others may as well; :func:`udfs.handlers._record_checks.check_records` finds out.
    """
    layer = step.operation
    return (
        type(layer) in _APART
        and getattr(layer, "axis", None) != 0
        and not getattr(layer, "stateful", False)
        and all(map(_is_own, (getattr(layer, name, None) for name in ("activation", "recurrent_activation"))))
    )


def _is_own(function: Any) -> bool:
    return function is None or str(getattr(function, "__module__", type(function).__module__)).startswith("keras.")
