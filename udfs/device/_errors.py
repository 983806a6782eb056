"""Errors of the runtime of variants."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["DeviceClosedError", "NoLinkError"]


class NoLinkError(CerebroError, ConnectionError):
    """A request that only the cloud can answer, while the cloud cannot be reached."""


class DeviceClosedError(CerebroError, RuntimeError):
    """A request to a device that is closed, or whose process has ended."""
