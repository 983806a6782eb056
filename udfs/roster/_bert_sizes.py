"""Sizes of a BERT, known without torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BertSizes"]


@dataclass(frozen=True, slots=True)
class BertSizes:
    """Sizes of a BERT.

    Sizes are as in the paper; ``positions`` limits the tokens of a text, and DistilBERT has no ``segments``.
    ``deviation`` is the standard deviation of random weights. ``first`` is the index of a text's first position:
    RoBERTa's position tables begin with two entries that no token uses.
    """

    vocabulary: int = 30_522
    hidden: int = 768
    blocks: int = 12
    heads: int = 12
    intermediate: int = 3_072
    positions: int = 512
    segments: int = 2
    activation: str = "gelu"
    epsilon: float = 1e-12
    deviation: float = 0.02
    first: int = 0

    @property
    def longest(self) -> int:
        """Number of tokens of the longest text."""
        return self.positions - self.first

    @property
    def parameters(self) -> int:
        """Number of scalars of the network."""
        embeddings = self.hidden * (self.vocabulary + self.positions + self.segments + 2)
        attention = 4 * self.hidden * (self.hidden + 1) + 2 * self.hidden
        dense = self.intermediate * (self.hidden + 1) + self.hidden * (self.intermediate + 1) + 2 * self.hidden
        return embeddings + self.blocks * (attention + dense)
