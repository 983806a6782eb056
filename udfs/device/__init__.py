"""Runtime of model variants on a device, with a cloud that may be out of reach (MCDNN).

Shen, *System for Serving Deep Neural Networks Efficiently*, sections 4.3.3 and 4.3.4.
"""

from udfs.device._answer import Answer
from udfs.device._cloud import Cloud, HttpCloud, ServedCloud, served_name
from udfs.device._device import VariantRunner
from udfs.device._energy import read_joules
from udfs.device._errors import DeviceClosedError, NoLinkError
from udfs.device._installed import Installed
from udfs.device._open_variant import OpenVariant, open_variant
from udfs.device._suffix_client import SuffixClient
from udfs.device._suffix_server import SuffixServer

__all__ = [
    "Answer",
    "Cloud",
    "DeviceClosedError",
    "HttpCloud",
    "Installed",
    "NoLinkError",
    "OpenVariant",
    "ServedCloud",
    "SuffixClient",
    "SuffixServer",
    "VariantRunner",
    "open_variant",
    "read_joules",
    "served_name",
]
