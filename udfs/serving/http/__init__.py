"""Served models over HTTP: the Open Inference Protocol (KServe V2), metrics, a live page."""

from ._errors import PortTakenError
from ._front_end import FrontEnd, check_address
from ._limits import HttpLimits
from ._prometheus import Gauge

__all__ = ["FrontEnd", "Gauge", "HttpLimits", "PortTakenError", "check_address"]
