"""Occlusion heat maps: of one image or tensor, and of a DataFrame's images (Krypton, chapter 6)."""

from vista_spark.occlusion._checks import check_explainable, check_occlusion
from vista_spark.occlusion._image import Explanation, explain, explain_sizes
from vista_spark.occlusion._stage import OcclusionExplainer, OcclusionExplainerModel
from vista_spark.occlusion._tensor import TensorExplanation, explain_tensor

__all__ = [
    "Explanation",
    "OcclusionExplainer",
    "OcclusionExplainerModel",
    "TensorExplanation",
    "check_explainable",
    "check_occlusion",
    "explain",
    "explain_sizes",
    "explain_tensor",
]
