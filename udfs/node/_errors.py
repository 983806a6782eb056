"""Errors of a worker's node."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["DeviceError"]


class DeviceError(CerebroError, ValueError):
    """Device that this process does not have; the message names the devices that it has."""
