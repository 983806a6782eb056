"""The error of one bad row."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["RowError"]


class RowError(CerebroError, ValueError):
    """A value that cannot be read; an error about this one row, never about the program or the machine.

    ``reason`` is a short phrase from a small fixed set, the same on every run: fit to be stored in a column and
    counted. ``detail`` varies from row to row (a path, a shape, a length); it follows the reason in ``str(error)``.

    Examples
    --------
    >>> error = RowError("vector of the wrong length", "3 numbers for 4")
    >>> print(error)
    vector of the wrong length: 3 numbers for 4
    >>> error.reason
    'vector of the wrong length'
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        # Both go to `args`, so that the error survives the pickling between a Spark worker and its driver.
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason
