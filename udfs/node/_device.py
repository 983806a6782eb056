"""Names of devices, checked where a user writes them: a worker would refuse a wrong one only after the job began."""

from __future__ import annotations

import re

from optimizer.errors import InvalidArgumentError, nearest

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
    hint = nearest(name, DEVICES) if isinstance(name, str) else ""
    raise InvalidArgumentError(f"device={name!r}{hint}; one of: auto, cpu, cuda, cuda:1, gpu, mps, xpu")
