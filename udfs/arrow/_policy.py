"""The policy for bad rows, one for everything that reads rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from udfs.arrow._errors import RowError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ERROR_POLICIES", "ErrorPolicy", "RowPolicy"]

ErrorPolicy = Literal["raise", "null", "drop"]
ERROR_POLICIES: tuple[str, ...] = get_args(ErrorPolicy)


@dataclass(frozen=True, slots=True)
class RowPolicy:
    """Fail the job at a bad row, keep the row with nulls and its reason, or drop it.

    ``error_column`` is the last column of the output, with the reason, null for a good row; it is written with
    ``errors="null"`` only, and without it the nulls alone mark a bad row. ``detail_column`` follows it, with what a
    reason leaves open, such as a path or a size. ``error`` is raised with ``errors="raise"``, made of a reason and a
    detail.
    """

    errors: ErrorPolicy
    error_column: str | None = None
    error: type[RowError] = RowError
    detail_column: str | None = None

    @property
    def writes_reasons(self) -> bool:
        """True if the output has a column of reasons."""
        return self.errors == "null" and self.error_column is not None

    def check(
        self,
        reasons: Sequence[str | None],
        details: Sequence[str | None],
        *,
        first_row: int,
        partition: int,
        columns: Sequence[str],
    ) -> None:
        """Raise for the first bad row of a batch, with ``errors="raise"``.

        ``reasons``, ``details`` and ``columns`` have an entry per row. The first row and the partition of the batch and
        the columns go into the message of the :attr:`error`.
        """
        if self.errors != "raise":
            return
        for row, (reason, detail, column) in enumerate(zip(reasons, details, columns, strict=True)):
            if reason is not None:
                about = f"{detail}: " if detail else ""
                raise self.error(
                    reason,
                    f"{about}row {first_row + row} of partition {partition}, column {column!r} "
                    '(errors="null" keeps such rows and says why, errors="drop" leaves them out)',
                )
