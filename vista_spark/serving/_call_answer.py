"""The answer to one call of an application, which notes that it was read."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CallAnswer"]


class CallAnswer(Future[Any]):
    """A future that says so when its result is read: what is called afterwards depends on it.

    Parameters
    ----------
    read : callable
    """

    def __init__(self, read: Callable[[], None]) -> None:
        super().__init__()
        self._told = read

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result."""
        try:
            return super().result(timeout)
        finally:
            self._told()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the error, or for the result."""
        try:
            return super().exception(timeout)
        finally:
            self._told()
