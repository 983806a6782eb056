"""Messages between front-end processes and the driver's router."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - the wire reads the hints

from udfs.rpc import Request, WireProtocol
from udfs.serving import ServedModel  # noqa: TC001 - as above

__all__ = [
    "FORWARDING",
    "LARGEST_BYTES",
    "Arrays",
    "Ask",
    "Contents",
    "Counted",
    "Forward",
    "Forwarded",
    "Gather",
    "Gathered",
    "Reply",
    "Watch",
    "Watched",
]

LARGEST_BYTES = 48 << 20
"""Largest bytes of a request and of its answer, each of which travels in one message."""

_WIDEST = 8


@dataclass(frozen=True, slots=True)
class Contents:
    """Array of texts or of bytes, as it travels."""

    name: str
    text: bool  # True for texts, sent as UTF-8
    shape: tuple[int, ...]
    lengths: NDArray[np.int64]  # bytes of each element; -1 for a null
    content: NDArray[np.uint8]  # concatenated elements

    @classmethod
    def encode(cls, name: str, array: NDArray[Any]) -> Contents:
        """Encode an array.

        Raises
        ------
        TypeError
            The array has elements other than texts and nulls only, or bytes and nulls only.
        """
        values = array.ravel().tolist()
        text = any(isinstance(value, str) for value in values)
        for value in values:
            if value is not None and not isinstance(value, str if text else bytes | bytearray | memoryview):
                raise TypeError(
                    f"An array of objects must have only str or only bytes to travel, got {type(value).__name__}."
                )
        parts = [None if value is None else value.encode() if text else bytes(value) for value in values]
        lengths = np.array([-1 if part is None else len(part) for part in parts], np.int64)
        return cls(name, text, array.shape, lengths, np.frombuffer(b"".join(filter(None, parts)), np.uint8))

    def array(self) -> NDArray[Any]:
        """Decode the array."""
        whole, elements = self.content.tobytes(), np.empty(len(self.lengths), object)
        end = 0
        for place, length in enumerate(self.lengths.tolist()):
            if length >= 0:
                begin, end = end, end + length
                elements[place] = whole[begin:end].decode() if self.text else whole[begin:end]
        return elements.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Arrays:
    """Arrays by name, as they travel; numbers are sent unchanged.

    Examples
    --------
    >>> arrays = {"x": np.ones((1, 2)), "text": np.array([["of"], ["words"]], object)}
    >>> Arrays.encode(arrays).read()["text"].tolist(), Arrays.encode(arrays).nbytes
    ([['of'], ['words']], 39)
    """

    numbers: dict[str, Any]
    contents: tuple[Contents, ...]

    @classmethod
    def encode(cls, arrays: dict[str, NDArray[Any]]) -> Arrays:
        """Encode arrays.

        Raises
        ------
        TypeError
            An array has neither numbers, nor texts only, nor bytes only.
        """
        texts = {name for name, array in arrays.items() if array.dtype.kind in "OSU"}
        for name, array in arrays.items():
            if name not in texts and (array.dtype.kind not in "biuf" or array.dtype.itemsize > _WIDEST):
                raise TypeError(
                    f"Output {name!r} must be numbers of at most 64 bits, str or bytes to travel, got {array.dtype}."
                )
        return cls(
            {name: array for name, array in arrays.items() if name not in texts},
            tuple(Contents.encode(name, array) for name, array in arrays.items() if name in texts),
        )

    def read(self) -> dict[str, NDArray[Any]]:
        """Decode the arrays."""
        return self.numbers | {content.name: content.array() for content in self.contents}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        texts = sum(content.content.nbytes + content.lengths.nbytes for content in self.contents)
        return int(texts + sum(array.nbytes for array in self.numbers.values()))


@dataclass(frozen=True, slots=True)
class Ask:
    """Request for a model."""

    number: int  # identifier at the front end
    model: str
    version: str | None
    remaining_ms: float  # milliseconds until the deadline: clocks of two machines are never compared
    inputs: Arrays  # inputs with the batch in front


@dataclass(frozen=True, slots=True)
class Reply:
    """Result of a request."""

    number: int
    failure: str  # "", or the name of an error class
    message: str
    retry_after_s: float  # seconds to wait after an OverloadedError
    outputs: Arrays

    @property
    def nbytes(self) -> int:
        """Bytes of the outputs."""
        return self.outputs.nbytes


@dataclass(frozen=True, slots=True)
class Counted:
    """Start or end of a request for a version of a model."""

    name: str
    version: str
    result: str  # one of udfs.serving.http._traffic.RESULTS; "" at the start
    seconds: float  # duration of the request


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Reply to :class:`Forward`."""


@dataclass(frozen=True, slots=True)
class Forward(Request[Forwarded]):
    """Requests to submit, requests to cancel, and counts."""

    front_end: str
    asks: tuple[Ask, ...]
    cancelled: tuple[int, ...]
    counted: tuple[Counted, ...]
    refused: tuple[str, ...]  # reasons of requests without a deployed model or without the token


@dataclass(frozen=True, slots=True)
class Gathered:
    """Results of requests, and the deployed models."""

    replies: tuple[Reply, ...]
    last: int  # number of the last reply, in the order of completion
    table: int  # number of the list of models
    models: tuple[ServedModel, ...] | None  # deployed models; None if the list has not changed
    ready: bool


@dataclass(frozen=True, slots=True)
class Gather(Request[Gathered]):
    """Request to wait briefly for replies; those up to ``after``, and the list ``table``, have arrived."""

    front_end: str
    after: int
    table: int


@dataclass(frozen=True, slots=True)
class Watched:
    """Response of the monitor."""

    status: int
    content_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Watch(Request[Watched]):
    """Request for the response to ``"status"`` or ``"metrics"``, which covers all front ends."""

    what: str


FORWARDING = WireProtocol("cerebro-serving-front-end", 2, (Forward, Gather, Watch))
"""Protocol whose requests the driver answers."""
