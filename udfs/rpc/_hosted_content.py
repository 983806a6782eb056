"""Stored content that one member of a run serves to the others, with its digest."""

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
    """Content with the digest that was computed when it was created, so that only the receiver has to verify it."""

    content: bytes  # stored bytes
    digest: str  # digest of the content, from digest_of


def digest_of(content: bytes) -> str:
    """Compute the digest that identifies a content and reveals damage.

    Examples
    --------
    >>> digest_of(b"weights")
    '873ac3c6df553eaa62331fd4ff9b521a'
    """
    digest = new_digest()
    digest.update(content)
    return str(digest.hexdigest())


def new_digest() -> Any:
    """Create an incremental digest for a content that arrives in parts."""
    return hashlib.blake2b(digest_size=_BYTES)
