"""What front ends in processes of their own and the driver's router say to each other."""

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
"""Of a request, and of its answer: a message takes each whole."""

_WIDEST = 8


@dataclass(frozen=True, slots=True)
class Contents:
    """An array of texts or of bytes.

    Attributes
    ----------
    name : str
    text : bool
        Whether they are texts, as UTF-8.
    shape : tuple of int
    lengths : array of int64
        Bytes of each.
    content : array of uint8
        One after the other.
    """

    name: str
    text: bool
    shape: tuple[int, ...]
    lengths: NDArray[np.int64]
    content: NDArray[np.uint8]

    @classmethod
    def of(cls, name: str, array: NDArray[Any]) -> Contents:
        """Write an array down.

        Raises
        ------
        TypeError
            It has other things than texts alone, or bytes alone.
        """
        values = array.ravel().tolist()
        text = any(isinstance(value, str) for value in values)
        for value in values:
            if not isinstance(value, str if text else bytes | bytearray | memoryview):
                raise TypeError(
                    f"an array of objects has a {type(value).__name__}: texts alone, or bytes alone, travel"
                )
        parts = [value.encode() if text else bytes(value) for value in values]
        lengths = np.array([len(part) for part in parts], np.int64)
        return cls(name, text, array.shape, lengths, np.frombuffer(b"".join(parts), np.uint8))

    def array(self) -> NDArray[Any]:
        """Read it again."""
        whole, found = self.content.tobytes(), np.empty(len(self.lengths), object)
        ends = np.cumsum(self.lengths)
        for place, (begin, end) in enumerate(zip((ends - self.lengths).tolist(), ends.tolist(), strict=True)):
            part = whole[begin:end]
            found[place] = part.decode() if self.text else part
        return found.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Arrays:
    """Arrays by name, as they travel: those of numbers as they are.

    Examples
    --------
    >>> given = {"x": np.ones((1, 2)), "text": np.array([["of"], ["words"]], object)}
    >>> Arrays.of(given).read()["text"].tolist(), Arrays.of(given).nbytes
    ([['of'], ['words']], 39)
    """

    numbers: dict[str, Any]
    contents: tuple[Contents, ...]

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> Arrays:
        """Write arrays down.

        Raises
        ------
        TypeError
            One is neither of numbers nor of texts or bytes alone.
        """
        spoken = {name for name, array in arrays.items() if array.dtype.kind in "OSU"}
        for name, array in arrays.items():
            if name not in spoken and (array.dtype.kind not in "biuf" or array.dtype.itemsize > _WIDEST):
                raise TypeError(f"{name!r} is {array.dtype}, which does not travel")
        return cls(
            {name: array for name, array in arrays.items() if name not in spoken},
            tuple(Contents.of(name, array) for name, array in arrays.items() if name in spoken),
        )

    def read(self) -> dict[str, NDArray[Any]]:
        """Read them again."""
        return self.numbers | {one.name: one.array() for one in self.contents}

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        spoken = sum(one.content.nbytes + one.lengths.nbytes for one in self.contents)
        return int(spoken + sum(array.nbytes for array in self.numbers.values()))


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a model.

    Attributes
    ----------
    number : int
        Its id at the front end.
    model : str
    version : str or None
    remaining_ms : float
        Until its deadline: clocks of two machines are never compared.
    inputs : Arrays
        With the batch in front.
    """

    number: int
    model: str
    version: str | None
    remaining_ms: float
    inputs: Arrays


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a request.

    Attributes
    ----------
    number : int
    failure : str
        ``""``, or the name of an error.
    message : str
    retry_after_s : float
        Of an ``OverloadedError``.
    outputs : Arrays
    """

    number: int
    failure: str
    message: str
    retry_after_s: float
    outputs: Arrays

    @property
    def nbytes(self) -> int:
        """Bytes of the outputs."""
        return self.outputs.nbytes


@dataclass(frozen=True, slots=True)
class Counted:
    """A request for a version of a model that has come, or has ended.

    Attributes
    ----------
    name, version : str
    result : str
        One of :data:`udfs.serving.http._traffic.RESULTS`; ``""``: it has come.
    seconds : float
        That it took.
    """

    name: str
    version: str
    result: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Forwarded:
    """They were taken."""


@dataclass(frozen=True, slots=True)
class Forward(Request[Forwarded]):
    """Take requests, forget some whose client has gone, and count.

    Attributes
    ----------
    front_end : str
    asks : tuple of Ask
    cancelled : tuple of int
    counted : tuple of Counted
    refused : tuple of str
        Why requests were refused that name no model, or that have no token.
    """

    front_end: str
    asks: tuple[Ask, ...]
    cancelled: tuple[int, ...]
    counted: tuple[Counted, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What has become of requests, and the models that are served by now.

    Attributes
    ----------
    replies : tuple of Reply
    last : int
        Number of the last of them, in the order of being ready.
    table : int
        Number of the list of models.
    models : tuple of ServedModel or None
        ``None``: the list has not changed.
    ready : bool
    """

    replies: tuple[Reply, ...]
    last: int
    table: int
    models: tuple[ServedModel, ...] | None
    ready: bool


@dataclass(frozen=True, slots=True)
class Gather(Request[Gathered]):
    """Wait for replies for a moment; those up to ``after``, and the list ``table``, have arrived."""

    front_end: str
    after: int
    table: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A response of the monitor."""

    status: int
    content_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Watch(Request[Watched]):
    """Give what ``"status"`` or ``"metrics"`` answers: of all front ends together."""

    what: str


FORWARDING = WireProtocol("cerebro-serving-front-end", 1, (Forward, Gather, Watch))
"""Answered by the driver."""
