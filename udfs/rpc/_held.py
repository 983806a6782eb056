"""Bytes that a member of a run holds for the others, with the digest by which all know them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Held", "digest_of", "new_digest"]

_BYTES = 16


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes whose digest was computed as they came to be: whoever gets them checks it, and whoever gives them need not.

    Parameters
    ----------
    content : bytes
    digest : str
        :func:`digest_of` them.
    """

    content: bytes
    digest: str


def digest_of(content: bytes) -> str:
    """Compute the digest that tells contents apart, and a damaged one from an intact one.

    Examples
    --------
    >>> digest_of(b"weights")
    '873ac3c6df553eaa62331fd4ff9b521a'
    """
    digest = new_digest()
    digest.update(content)
    return str(digest.hexdigest())


def new_digest() -> Any:
    """Begin the digest of a content that comes in parts."""
    return hashlib.blake2b(digest_size=_BYTES)
