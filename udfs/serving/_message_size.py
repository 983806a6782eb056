"""Split of queued items into messages below the size limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HasBytes", "fill_message"]

# Half of the limit of the wire protocol.
_MESSAGE_BYTES = 32 << 20


class HasBytes(Protocol):
    """An item with a size in bytes."""

    @property
    def nbytes(self) -> int:
        """Bytes of the item's arrays."""


_T = TypeVar("_T", bound=HasBytes)


def fill_message(items: Iterable[_T]) -> list[_T]:
    """Return the first items that fit into one message, at least one.

    Examples
    --------
    >>> import numpy as np
    >>> [array.size for array in fill_message([np.zeros(1 << 24, np.uint8)] * 3)]
    [16777216, 16777216]
    """
    message: list[_T] = []
    nbytes = 0
    for item in items:
        nbytes += item.nbytes
        if message and nbytes > _MESSAGE_BYTES:
            break
        message.append(item)
    return message
