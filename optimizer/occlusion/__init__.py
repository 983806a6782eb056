"""Algebra of incremental inference: the part of each tensor that a patch of the image changes, and the FLOPs saved.

Krypton, sections 6.2 to 6.4 and appendix B.3. All of it is computed before any inference.
"""

from ._drill_down import DrillDown, stage_one_step, stage_one_stride
from ._errors import PatchError
from ._grid import OcclusionGrid
from ._local import is_broadcasting, is_per_channel
from ._span import Span
from ._updates import UpdatePatches, update_patches

__all__ = [
    "DrillDown",
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
