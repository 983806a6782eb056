"""As many of some things as one message carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HasBytes", "fitting"]

# The wire takes twice as much.
_MESSAGE_BYTES = 32 << 20


class HasBytes(Protocol):
    """A thing that travels."""

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""


_T = TypeVar("_T", bound=HasBytes)


def fitting(things: Iterable[_T]) -> list[_T]:
    """Take the first things of a line until a message is full, and one at least.

    Examples
    --------
    >>> import numpy as np
    >>> [array.size for array in fitting([np.zeros(1 << 24, np.uint8)] * 3)]
    [16777216, 16777216]
    """
    taken: list[_T] = []
    held = 0
    for thing in things:
        held += thing.nbytes
        if taken and held > _MESSAGE_BYTES:
            break
        taken.append(thing)
    return taken
