"""Algebra of incremental inference: the part of each tensor that a patch of the image changes, and the saved FLOPs.

Krypton, sections 6.2 to 6.4 and appendix B.3. All of it is computed before any inference.
"""

from optimizer.occlusion._drill_down import stage_one_step, stage_one_stride
from optimizer.occlusion._errors import PatchError
from optimizer.occlusion._grid import OcclusionGrid
from optimizer.occlusion._locality import is_broadcasting, is_per_channel
from optimizer.occlusion._span import Span
from optimizer.occlusion._updates import UpdatePatches, update_patches

__all__ = [
    "OcclusionGrid",
    "PatchError",
    "Span",
    "UpdatePatches",
    "is_broadcasting",
    "is_per_channel",
    "stage_one_step",
    "stage_one_stride",
    "update_patches",
]
