"""Catalogs of model variants (MCDNN): smaller, faster and less accurate versions of a network, measured.

Shen, *System for Serving Deep Neural Networks Efficiently*, section 4.3.1.
"""

from optimizer.variants import Coarsen, Compile, Factorize, Narrow, Quantize, Resize, Shorten, Tuning
from vista_spark.variants._build import build_catalog
from vista_spark.variants._catalog import Catalog, CatalogVariant
from vista_spark.variants._files import read_catalog

__all__ = [
    "Catalog",
    "CatalogVariant",
    "Coarsen",
    "Compile",
    "Factorize",
    "Narrow",
    "Quantize",
    "Resize",
    "Shorten",
    "Tuning",
    "build_catalog",
    "read_catalog",
]
