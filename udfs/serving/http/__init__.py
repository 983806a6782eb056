"""HTTP front ends for served models: the Open Inference Protocol (KServe V2), metrics, and a live page."""

from udfs.serving.http._address import check_address
from udfs.serving.http._errors import PortTakenError
from udfs.serving.http._front_end import FrontEnd
from udfs.serving.http._front_end_processes import FrontEndProcesses
from udfs.serving.http._limits import HttpLimits
from udfs.serving.http._prometheus import Gauge

__all__ = [
    "FrontEnd",
    "FrontEndProcesses",
    "Gauge",
    "HttpLimits",
    "PortTakenError",
    "check_address",
]
