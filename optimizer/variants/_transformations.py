"""Transformations of a network that make it smaller or faster, and their strengths (section 4.3.1 of the thesis).

Each raises InvalidArgumentError for a strength that is out of range or repeats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError

__all__ = ["Coarsen", "Compile", "Factorize", "Narrow", "Quantize", "Resize", "Shorten", "Step", "Transformation"]

_FLOAT_BITS = 32


@dataclass(frozen=True, slots=True)
class Step:
    """A transformation with a strength.

    Parameters
    ----------
    kind : {"resize", "shorten", "coarsen", "narrow", "factorize", "quantize", "compile"}
        Transformation.
    value : float
        Its strength.
    """

    kind: str
    value: float

    @property
    def is_trained(self) -> bool:
        """True if the network is fine-tuned after the step."""
        return self.kind not in ("quantize", "compile")

    def __str__(self) -> str:
        number = f"{self.value:g}"
        words = {
            "resize": f"{number}px",
            "shorten": f"short{number}",
            "coarsen": f"stride{number}",
            "narrow": f"width{number}",
            "factorize": f"rank{number}",
            "quantize": f"{number}bit",
            "compile": "onnx" if self.value == _FLOAT_BITS else f"onnx-int{number}",
        }
        return words[self.kind]


class Transformation:
    """Base class of transformations: a kind, and strengths of which a variant has at most one."""

    kind: ClassVar[str]
    values: tuple[float, ...]

    __slots__ = ("values",)

    def steps(self) -> tuple[Step, ...]:
        """Return a step for each strength."""
        return tuple(Step(self.kind, value) for value in self.values)

    def _set(self, values: tuple[float, ...]) -> None:
        if not values or len(set(values)) < len(values):
            raise InvalidArgumentError(
                f"{type(self).__name__} must have at least one strength, each once, got {values!r}."
            )
        self.values = values

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Transformation) and other.values == self.values

    def __hash__(self) -> int:
        return hash((self.kind, self.values))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{value:g}' for value in self.values)})"


class Factorize(Transformation):
    """Replace weight matrices and kernels by products of two smaller ones (singular value decomposition).

    Parameters
    ----------
    *keep : float
        Ranks, as shares of the smaller side of each matrix, above 0 and below 1. Default 1/2, 1/4 and 1/8, the range of
        the thesis (section 4.3.1). Layers stay as they are where the factors would not be smaller.

    Examples
    --------
    >>> Factorize(0.25).steps()
    (Step(kind='factorize', value=0.25),)
    """

    kind = "factorize"
    __slots__ = ()

    def __init__(self, *keep: float) -> None:
        self._set(tuple(_share("keep", value) for value in keep or (0.5, 0.25, 0.125)))


class Narrow(Transformation):
    """Remove kernels: a share of the channels of each convolution and of the units of each hidden layer.

    Parameters
    ----------
    *widths : float
        Shares of the channels that stay, above 0 and below 1. Default 0.5.

    Raises
    ------
    InvalidArgumentError
        A share is out of range, or repeats.
    """

    kind = "narrow"
    __slots__ = ()

    def __init__(self, *widths: float) -> None:
        self._set(tuple(_share("widths", value) for value in widths or (0.5,)))


class Quantize(Transformation):
    """Store weights in fewer bits.

    Parameters
    ----------
    *bits : {16, 8}
        Bits per weight. Default 16 and 8. Integers of 8 bits have a scale per output channel.
    """

    kind = "quantize"
    __slots__ = ()

    def __init__(self, *bits: int) -> None:
        for value in bits:
            if value not in (16, 8):
                raise InvalidArgumentError(
                    f"bits must be 16 or 8, got {value!r}. Without Quantize weights have {_FLOAT_BITS}."
                )
        self._set(tuple(int(value) for value in bits or (16, 8)))


class Compile(Transformation):
    """Run the network in ONNX Runtime, in floats or in integers of 8 bits.

    Integers are computed as such (static quantisation, calibrated on training images), not only stored. The variants
    need ``onnx`` and ``onnxruntime``, and run on the CPU.

    Parameters
    ----------
    *bits : {32, 8}
        Bits of weights and activations. Default 32 and 8.
    """

    kind = "compile"
    __slots__ = ()

    def __init__(self, *bits: int) -> None:
        for value in bits:
            if value not in (_FLOAT_BITS, 8):
                raise InvalidArgumentError(f"bits must be 32 or 8, got {value!r}.")
        self._set(tuple(int(value) for value in bits or (_FLOAT_BITS, 8)))


class Resize(Transformation):
    """Read smaller images.

    Parameters
    ----------
    *sizes : int
        Heights and widths in pixels.
    """

    kind = "resize"
    __slots__ = ()

    def __init__(self, *sizes: int) -> None:
        self._set(tuple(whole("sizes", value, 8) for value in sizes))


class Shorten(Transformation):
    """Remove layers: blocks whose input and output have the same shape.

    Parameters
    ----------
    *blocks : int
        Numbers of blocks to remove. Default 1 and 2.
    """

    kind = "shorten"
    __slots__ = ()

    def __init__(self, *blocks: int) -> None:
        self._set(tuple(whole("blocks", value) for value in blocks or (1, 2)))


class Coarsen(Transformation):
    """Increase the stride of the first convolution.

    Parameters
    ----------
    *factors : int
        Factors, at least 2. Default 2.
    """

    kind = "coarsen"
    __slots__ = ()

    def __init__(self, *factors: int) -> None:
        self._set(tuple(whole("factors", value, 2) for value in factors or (2,)))


def _share(name: str, value: float) -> float:
    share = real(name, value, 0, 1, above=True)
    if share == 1:
        raise InvalidArgumentError(f"{name} must be below 1, got {value!r}. The catalog has the whole network anyway.")
    return share
