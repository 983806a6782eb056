"""Variants of trained networks: plain descriptions of structural changes, and tasks that build and measure them.

The transformations of torch networks are in :mod:`udfs.variants.torch`, which imports torch.
"""

from udfs.variants._build_task import BUILT, TRAIN, VALID, WEIGHTS, BuildTask
from udfs.variants._labelled_images import IMAGE, LABEL
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.measuring import COSTS, CostsTask, MeasuredNetwork, MeasuringError

__all__ = [
    "BUILT",
    "COSTS",
    "IMAGE",
    "LABEL",
    "TRAIN",
    "VALID",
    "WEIGHTS",
    "BuildTask",
    "CostsTask",
    "LayerChange",
    "MeasuredNetwork",
    "MeasuringError",
    "Structure",
]
