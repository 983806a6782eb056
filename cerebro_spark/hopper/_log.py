"""Log of a trial: what its units printed, its beginning and its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.hopper import Printed

__all__ = ["TrialLog"]

# Characters of the beginning, and of the end.
_KEPT = 128 * 1024


@dataclass(frozen=True, slots=True)
class TrialLog:
    r"""Text that the units of a trial printed: all of it, or the first and the last 131,072 characters.

    ``omitted`` bytes are left out between ``first`` and ``last``.

    Examples
    --------
    >>> from udfs.hopper import Printed
    >>> print(TrialLog().extended(Printed("c000", "a step\n", 1_000_000, "the end")))
    a step
    [1,000,000 bytes are left out]
    the end
    """

    first: str = ""
    omitted: int = 0
    last: str = ""

    def extended(self, printed: Printed) -> TrialLog:
        """Append what a unit printed."""
        log = self._with(printed.first)
        if printed.omitted:
            # One gap: what lies between two of them belongs to neither end.
            log = replace(log, omitted=log.omitted + len(log.last.encode()) + printed.omitted, last="")
        return log._with(printed.last)  # noqa: SLF001 - of this class

    def __str__(self) -> str:
        if not self.omitted:
            return self.first + self.last
        line_end = "" if self.first.endswith("\n") else "\n"
        return f"{self.first}{line_end}[{self.omitted:,} bytes are left out]\n{self.last}"

    def _with(self, text: str) -> TrialLog:
        room = 0 if self.omitted or self.last else _KEPT - len(self.first)
        last = self.last + text[room:]
        left_out = last[:-_KEPT] if len(last) > _KEPT else ""
        return TrialLog(self.first + text[:room], self.omitted + len(left_out.encode()), last[len(left_out) :])
