"""Attribution of a score to the parts of an input, beside occlusion: ablation, LIME, RISE, gradients, and curves."""

from vista_spark.attribution._attributor import Attributor
from vista_spark.attribution._open import image_attributor, tensor_attributor, text_attributor
from vista_spark.attribution._result import Attribution, attribution_of

__all__ = [
    "Attribution",
    "Attributor",
    "attribution_of",
    "image_attributor",
    "tensor_attributor",
    "text_attributor",
]
