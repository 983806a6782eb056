"""Networks that the platform knows by name, with their preprocessing and their layers counted from the top.

Users reach this package as :mod:`vista_spark.roster`, which documents it; both front packages use it.
"""

from udfs.roster._card import FeatureLayer, ModelCard
from udfs.roster._class_names import ClassNames, fitting_class_names, read_class_names
from udfs.roster._errors import UnknownModelError
from udfs.roster._fetch import fetch_weights, fetched_weights, published_weights
from udfs.roster._load import load
from udfs.roster._model_files import is_model_file
from udfs.roster._onnx_builder import OnnxBuilder
from udfs.roster._pretrained import from_pretrained
from udfs.roster._register import register, text_encoder
from udfs.roster._registry import SAVED_BUILDERS, card, is_shipped, names, unregister
from udfs.roster._resolve import is_name, of
from udfs.roster._text_builtin import BertShape, text_card
from udfs.roster._variant_builder import VariantBuilder

__all__ = [
    "SAVED_BUILDERS",
    "BertShape",
    "ClassNames",
    "FeatureLayer",
    "ModelCard",
    "OnnxBuilder",
    "UnknownModelError",
    "VariantBuilder",
    "card",
    "fetch_weights",
    "fetched_weights",
    "fitting_class_names",
    "from_pretrained",
    "is_model_file",
    "is_name",
    "is_shipped",
    "load",
    "names",
    "of",
    "published_weights",
    "read_class_names",
    "register",
    "text_card",
    "text_encoder",
    "unregister",
]
