"""Served models over HTTP: the Open Inference Protocol (KServe V2), metrics, a live page."""

from ._address import check_address, token_of
from ._errors import PortTakenError
from ._front_end import FrontEnd
from ._front_end_processes import FrontEndProcesses
from ._front_end_worker import FrontEndWorker
from ._limits import HttpLimits
from ._prometheus import Gauge
from ._router_service import RouterService

__all__ = [
    "FrontEnd",
    "FrontEndProcesses",
    "FrontEndWorker",
    "Gauge",
    "HttpLimits",
    "PortTakenError",
    "RouterService",
    "check_address",
    "token_of",
]
