"""Incremental inference over many changed patches of one image: Krypton's execution (section 6.3.4, Algorithm 6)."""

from ._bands import Band, bands
from ._network import IncrementalNetwork, Views

__all__ = ["Band", "IncrementalNetwork", "Views", "bands"]
