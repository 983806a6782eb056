"""Occlusion heat maps: of one image or tensor, and of a DataFrame's images (Krypton, chapter 6)."""

from vista_spark.occlusion._checks import check_explainable, one_record
from vista_spark.occlusion._explain_image import explain_image, explain_image_sizes, explain_image_targets
from vista_spark.occlusion._explain_tensor import TensorExplanation, explain_tensor
from vista_spark.occlusion._explanation import Explanation, shown_image
from vista_spark.occlusion._options import OcclusionOptions, ScoreKeywords
from vista_spark.occlusion._progress import Progress
from vista_spark.occlusion._session import ExplainerSession, open_explainer
from vista_spark.occlusion._settings import color_fill, occlusion_settings
from vista_spark.occlusion._stage import OcclusionExplainer, OcclusionExplainerModel
from vista_spark.occlusion._validation import as_image, as_inputs

__all__ = [
    "ExplainerSession",
    "Explanation",
    "OcclusionExplainer",
    "OcclusionExplainerModel",
    "OcclusionOptions",
    "Progress",
    "ScoreKeywords",
    "TensorExplanation",
    "as_image",
    "as_inputs",
    "check_explainable",
    "color_fill",
    "explain_image",
    "explain_image_sizes",
    "explain_image_targets",
    "explain_tensor",
    "occlusion_settings",
    "one_record",
    "open_explainer",
    "shown_image",
]
