"""Measured catalogs of model variants (MCDNN): smaller, faster, less accurate networks, and models that share a trunk.

Shen, *System for Serving Deep Neural Networks Efficiently*, sections 4.3.1 and 4.3.2.2.
"""

from optimizer.variants import Coarsen, Compile, Factorize, Narrow, Quantize, Resize, Shorten, Tuning
from vista_spark.variants._attributes import SharedAttribute
from vista_spark.variants._build import build_catalog
from vista_spark.variants._catalog import Catalog, CatalogVariant
from vista_spark.variants._files import read_catalog
from vista_spark.variants._handlers import Handlers, Prediction
from vista_spark.variants._shared_model import SharedModel, SharedPart
from vista_spark.variants._sharing import share

__all__ = [
    "Catalog",
    "CatalogVariant",
    "Coarsen",
    "Compile",
    "Factorize",
    "Handlers",
    "Narrow",
    "Prediction",
    "Quantize",
    "Resize",
    "SharedAttribute",
    "SharedModel",
    "SharedPart",
    "Shorten",
    "Tuning",
    "build_catalog",
    "read_catalog",
    "share",
]
