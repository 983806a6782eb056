"""Models that a test registers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["registered"]


@contextmanager
def registered(card: roster.ModelCard) -> Iterator[roster.ModelCard]:
    """Register a model while the block runs."""
    roster.register(card)
    try:
        yield card
    finally:
        roster.unregister(card.name)
