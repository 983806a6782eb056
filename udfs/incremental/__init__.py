"""Incremental inference over many changed patches of one image: Krypton's execution (section 6.3.4, Algorithm 6)."""

from ._buckets import Bucket, buckets
from ._network import IncrementalNetwork, is_in_full
from ._views import Views

__all__ = ["Bucket", "IncrementalNetwork", "Views", "buckets", "is_in_full"]
