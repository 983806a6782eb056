"""State of the link to the cloud, as failing calls show it."""

from __future__ import annotations

import time

__all__ = ["Link"]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0


class Link:
    """Link that counts as lost for a while after a failed call.

    The pause is half a second after the first failure and doubles with each further one, up to a minute. After the
    pause the next request tries the link.

    Attributes
    ----------
    error : Exception or None
        Failure of the last call; None after a success.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._pause = _FIRST_PAUSE
        self._retry_at = 0.0

    @property
    def connected(self) -> bool:
        """True if requests may use the link."""
        return time.monotonic() >= self._retry_at

    def record_failure(self, error: Exception) -> None:
        """Suspend the link. Concurrent calls that fail in the same pause count once."""
        self.error = error
        if self.connected:
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def record_success(self) -> None:
        """Resume the link."""
        self.error, self._pause, self._retry_at = None, _FIRST_PAUSE, 0.0
