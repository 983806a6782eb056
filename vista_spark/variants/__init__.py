"""Catalogs of model variants (MCDNN): smaller, faster and less accurate versions of a network, measured.

Shen, *System for Serving Deep Neural Networks Efficiently*, section 4.3.1.
"""

from vista_spark.variants._catalog import Catalog, CatalogVariant

__all__ = ["Catalog", "CatalogVariant"]
