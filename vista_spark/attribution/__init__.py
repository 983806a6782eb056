"""Attribution of a score to the parts of an input: ablation, LIME, Shapley values, RISE, gradients, and curves."""

from vista_spark.attribution._attribution import Attribution, attribution_of
from vista_spark.attribution._attributor import Attributor
from vista_spark.attribution._factories import image_attributor, tensor_attributor, text_attributor

__all__ = [
    "Attribution",
    "Attributor",
    "attribution_of",
    "image_attributor",
    "tensor_attributor",
    "text_attributor",
]
