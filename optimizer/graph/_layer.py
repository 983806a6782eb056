"""Operator of a network: its inputs, its output and its cost for one record."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optimizer.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["INPUT", "Layer", "Window"]

INPUT = "input"
"""The ``op`` of a graph input."""

# Numpy knows neither bfloat16 nor the 8-bit floats, so the width is read off the name.
_WIDTH = re.compile(r"(?:q?u?int|b?float|complex)(\d+)(?:_\w+)?")


def _bits(dtype: str) -> int:
    if dtype == "bool":
        return 8
    match = _WIDTH.fullmatch(dtype)
    if match is None:
        raise GraphError(f"dtype must be a name such as 'float32', 'bfloat16', 'int64' or 'bool', got {dtype!r}.")
    return int(match[1])


@dataclass(frozen=True, slots=True)
class Window:
    """The spatial window of a convolution or pooling layer, one entry per spatial axis.

    Output index ``i`` of an axis reads the input at ``i * stride - padding + t * dilation`` for ``t`` in
    ``range(kernel)``. The padding behind the last element shifts nothing, so only the one before the first is kept:
    an asymmetric ("same") padding is described exactly, and a negative one is a crop.

    Parameters
    ----------
    kernel, stride, padding, dilation : tuple of int
        In elements of the layer's input, all of one length: the number of spatial axes.

    Raises
    ------
    GraphError
        Lengths that differ; a kernel, stride or dilation below 1.

    Examples
    --------
    >>> Window(kernel=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(1, 1)).axes
    2
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in ("kernel", "stride", "padding", "dilation"):
            object.__setattr__(self, field, tuple(int(n) for n in getattr(self, field)))
        if len({len(self.kernel), len(self.stride), len(self.padding), len(self.dilation)}) > 1:
            raise GraphError(f"kernel, stride, padding and dilation must have one entry per spatial axis, got {self}.")
        if min((*self.kernel, *self.stride, *self.dilation), default=1) < 1:
            raise GraphError(f"kernel, stride and dilation must be positive integers, got {self}.")

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: a function of fixed-shape tensors to one fixed-shape tensor (Nautilus, definition 2.1).

    Parameters
    ----------
    name : str
        Unique within its graph.
    op : str
        The operation, in the handler's words; ``"input"`` marks a graph input. A layer of another op without inputs
        is a constant.
    inputs : tuple of str
        Names of the layers read, in the order of the arguments.
    output_shape : tuple of int
        Shape of one record's output, the batch axis left out.
    dtype : str
        Element type of the output: ``"float32"``, ``"bfloat16"``, ``"uint8"``...
    flops : int
        Floating-point operations of the forward pass for one record. One multiply-add counts as 2.
    param_bytes : int
        Bytes of the layer's own parameters and buffers.
    activation_bytes : int, optional
        Bytes of one record's output; by default the elements of ``output_shape`` times the width of ``dtype``.
    frozen : bool
        Whether training leaves the parameters alone; true for a layer that has none (Nautilus, definition 2.3).
    fingerprint : str
        Hash of op, configuration and parameter values of this layer alone, given by the framework's handler. Empty
        where op, shape, dtype and window define the layer: true of a ReLU, never of a layer with parameters.
    window : Window, optional
        For layers whose output element sees a neighbourhood of the input; ``None`` means pointwise.
    random : bool
        Whether the layer draws random numbers in training, as dropout and augmentation do: its output is another one
        in each epoch, so it is never materialised, whatever ``frozen`` says.
    inner_bytes : int, optional
        Bytes of all tensors that the layer makes for one record, its output included. More than ``activation_bytes``
        for a composite layer (a transformer block): training keeps what is inside. By default ``activation_bytes``.

    Raises
    ------
    GraphError
        An empty name, an input that reads something, a negative size or cost, ``inner_bytes`` below
        ``activation_bytes``, an unknown dtype.

    Examples
    --------
    >>> Layer("conv1", "conv2d", ("image",), (64, 112, 112), flops=236_027_904).activation_bytes
    3211264
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    output_shape: tuple[int, ...] = ()
    dtype: str = "float32"
    flops: int = 0
    param_bytes: int = 0
    # None is only an argument. Declared as it is read, the field spares its readers a check that cannot fail.
    activation_bytes: int = None  # type: ignore[assignment]
    frozen: bool = True
    fingerprint: str = ""
    window: Window | None = None
    random: bool = False
    inner_bytes: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not self.name:
            raise GraphError(f"name must not be empty, got a layer of op {self.op!r} without one.")
        # Arguments may have other types than the declared fields.
        inputs: Any = self.inputs
        activation_bytes: Any = self.activation_bytes
        inner_bytes: Any = self.inner_bytes
        if isinstance(inputs, str):
            raise GraphError(f"inputs of layer {self.name!r} must be a tuple of names, got the string {inputs!r}.")
        object.__setattr__(self, "inputs", tuple(inputs))
        object.__setattr__(self, "output_shape", tuple(int(n) for n in self.output_shape))
        if self.op == INPUT and self.inputs:
            raise GraphError(f"inputs of the graph input {self.name!r} must be empty, got {', '.join(self.inputs)}.")
        default_bytes = (math.prod(self.output_shape) * _bits(self.dtype) + 7) // 8
        if activation_bytes is None:
            object.__setattr__(self, "activation_bytes", default_bytes)
        sizes = (*self.output_shape, self.flops, self.param_bytes, self.activation_bytes)
        if min(sizes) < 0:
            raise GraphError(
                f"layer {self.name!r} has a negative size: output_shape={self.output_shape}, flops={self.flops}, "
                f"param_bytes={self.param_bytes}, activation_bytes={self.activation_bytes}; leave the batch axis out"
            )
        if inner_bytes is None:
            object.__setattr__(self, "inner_bytes", self.activation_bytes)
        elif inner_bytes < self.activation_bytes:
            raise GraphError(
                f"layer {self.name!r}: inner_bytes={inner_bytes} is less than the {self.activation_bytes} bytes of the "
                "output, which it includes"
            )

    def to_dict(self) -> dict[str, Any]:
        """Turn the layer into JSON-able data: every field by its name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Layer:
        """Restore the layer that :meth:`to_dict` wrote, also after a trip through JSON.

        Raises
        ------
        GraphError
            A field that no layer has, or a missing name or op.
        """
        try:
            fields = dict(data)
            if fields.get("window") is not None:
                fields["window"] = Window(**fields["window"])
            return cls(**fields)
        except TypeError as error:
            raise GraphError(f"data must describe a layer, got {dict(data)!r} ({error}).") from error
