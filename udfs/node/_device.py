"""Names of devices, checked where a user writes them: a worker would refuse a wrong one only after the job began."""

from __future__ import annotations

import re

from optimizer.arguments import choice_error
from optimizer.errors import InvalidArgumentError

__all__ = ["DEVICES", "check_device"]

DEVICES = ("auto", "cpu", "cuda", "gpu", "mps", "xpu")
"""Kinds of devices; all but ``"auto"`` may have a number: ``"cuda:1"``."""

_DEVICE = re.compile(rf"auto|({'|'.join(DEVICES[1:])})(:\d+)?", re.IGNORECASE)


def check_device(name: object) -> str:
    """Return the name of a device as it is, or refuse it; whether the device is there, the worker sees.

    Parameters
    ----------
    name : object
        One of :data:`DEVICES`, in any case, with a number or without.

    Raises
    ------
    optimizer.errors.InvalidArgumentError
        Another name, or no string; the message has the nearest one.

    Examples
    --------
    >>> check_device("cuda:1")
    'cuda:1'
    """
    if isinstance(name, str) and _DEVICE.fullmatch(name):
        return name
    raise InvalidArgumentError(choice_error("device", name, (*DEVICES[:3], "cuda:1", *DEVICES[3:])))
