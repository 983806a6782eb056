"""Variants of trained networks: plain descriptions of structural changes.

The transformations of torch networks are in :mod:`udfs.variants.torch`, which imports torch.
"""

from udfs.variants._structure import LayerChange, Structure

__all__ = ["LayerChange", "Structure"]
