"""Served models over HTTP: the Open Inference Protocol (KServe V2), metrics, a live page."""

from ._address import check_address
from ._errors import PortTakenError
from ._front_end import FrontEnd
from ._front_end_processes import FrontEndProcesses
from ._limits import HttpLimits
from ._prometheus import Gauge

__all__ = [
    "FrontEnd",
    "FrontEndProcesses",
    "Gauge",
    "HttpLimits",
    "PortTakenError",
    "check_address",
]
