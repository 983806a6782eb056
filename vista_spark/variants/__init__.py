"""Catalogs of model variants (MCDNN): smaller, faster and less accurate versions of a network, measured.

Shen, *System for Serving Deep Neural Networks Efficiently*, section 4.3.1.
"""

from optimizer.variants import Coarsen, Compile, Factorize, Narrow, Quantize, Resize, Shorten, Tuning
from udfs.device import Answer, DeviceClosedError, NoLinkError, served_name
from vista_spark.variants._build import build_catalog
from vista_spark.variants._catalog import Catalog, CatalogVariant
from vista_spark.variants._device_process import DeviceProcess
from vista_spark.variants._files import read_catalog
from vista_spark.variants._runtime import Device
from vista_spark.variants._suffix import CloudSuffix

__all__ = [
    "Answer",
    "Catalog",
    "CatalogVariant",
    "CloudSuffix",
    "Coarsen",
    "Compile",
    "Device",
    "DeviceClosedError",
    "DeviceProcess",
    "Factorize",
    "Narrow",
    "NoLinkError",
    "Quantize",
    "Resize",
    "Shorten",
    "Tuning",
    "build_catalog",
    "read_catalog",
    "served_name",
]
