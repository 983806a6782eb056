"""Operators that look numbers up: in sets, in tables, between bounds; and that choose among the columns of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ._errors import ProgramError
from ._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Buckets", "FirstGreatest", "Member", "Reject", "Translate"]


@dataclass(frozen=True, eq=False, slots=True)
class Member(Operator):
    """One where a number is in a set, else zero: a column for each set. NaN is in none. Float64.

    Parameters
    ----------
    columns : int64 array of shape (sets,)
        The column of the input that each set is asked for.
    starts : int64 array of shape (sets + 1,)
        Where the members of each set begin in `members`, and where the last one's end.
    members : float64 array
        Ascending within a set.
    """

    columns: NDArray[np.int64]
    starts: NDArray[np.int64]
    members: NDArray[np.float64]

    def __post_init__(self) -> None:
        ends = self.starts.tolist()
        if len(ends) != len(self.columns) + 1 or ends[0] != 0 or ends[-1] != len(self.members) or ends != sorted(ends):
            raise ProgramError(f"Member: {len(self.columns)} sets that begin at {ends} of {len(self.members)} members")

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if len(self.columns) and not 0 <= int(self.columns.min()) <= int(self.columns.max()) < inputs[0]:
            raise ProgramError(f"Member takes columns up to {int(self.columns.max())} of {inputs[0]}")
        return len(self.columns)


@dataclass(frozen=True, eq=False, slots=True)
class Translate(Operator):
    """The value of a key, per number; a number that is no key gets a default. NaN may be a key.

    Parameters
    ----------
    keys : float64 array
        Ascending, NaN last.
    values : array
        As many.
    default : float
        For what is no key, NaN included.
    """

    keys: NDArray[np.float64]
    values: NDArray[np.float64]
    default: float

    def __post_init__(self) -> None:
        if len(self.keys) != len(self.values) or len(np.unique(self.keys)) != len(self.keys):
            raise ProgramError(
                f"Translate: {len(self.keys)} keys, of which some come twice, or {len(self.values)} values"
            )
        if len(self.keys) and not np.array_equal(np.sort(self.keys), self.keys, equal_nan=True):
            raise ProgramError("Translate: keys do not ascend")


@dataclass(frozen=True, eq=False, slots=True)
class Buckets(Operator):
    """The place of the bucket that a number falls in: ``[bound, next bound)``, the last one with its upper bound.

    Below the first bound it is -1, above the last one the number of buckets, for NaN that number too. Float64.

    Parameters
    ----------
    bounds : float64 array
        Ascending.
    """

    bounds: NDArray[np.float64]

    def __post_init__(self) -> None:
        if len(self.bounds) < 2 or not (np.diff(self.bounds) > 0).all():  # noqa: PLR2004 - a bucket has two ends
            raise ProgramError(f"Buckets: bounds {self.bounds.tolist()} are no ascending pair")


@dataclass(frozen=True, eq=False, slots=True)
class FirstGreatest(Operator):
    """The place of the greatest number in a row, the first of equals, found by ``>`` from the left; int64.

    Nothing is greater than NaN, and NaN is greater than nothing.

    Parameters
    ----------
    start : {"first", "nothing"}
        What the search begins with: the first column, which so stays if it is NaN; or nothing, so that NaN is left out.
        A row of NaN alone gets 0.
    """

    start: str = "first"

    def __post_init__(self) -> None:
        check_choice("FirstGreatest", "start", self.start, ("first", "nothing"))

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if not inputs[0]:
            raise ProgramError("FirstGreatest of no columns")
        return 1


@dataclass(frozen=True, eq=False, slots=True)
class Reject(Operator):
    """Hold rows to a rule of the model: a row is bad where the second input has anything but zeros.

    The first input passes unchanged.

    Parameters
    ----------
    reason : str
        What such a row has, for the message, as ``"a bucket out of bounds, which Bucketizer does not take"``.
    """

    arity: ClassVar[int | None] = 2
    reason: str

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], inputs[0])
