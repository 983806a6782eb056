"""Incremental inference over many changed patches of one image: Krypton's execution (section 6.3.4, Algorithm 6)."""

from udfs.incremental._buckets import buckets
from udfs.incremental._network import IncrementalNetwork
from udfs.incremental._views import Views

__all__ = ["IncrementalNetwork", "Views", "buckets"]
