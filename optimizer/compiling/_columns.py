"""Operators that choose, join and fill columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Concatenate", "Finite", "Impute", "Select"]


@dataclass(frozen=True, eq=False, slots=True)
class Select(Operator):
    """Gather columns in some order.

    A product with zeros and ones would make NaN of 0 times NaN.

    Parameters
    ----------
    columns : int64 array of shape (width,)
        Columns of the input.
    """

    columns: NDArray[np.int64]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if len(self.columns) and not 0 <= int(self.columns.min()) <= int(self.columns.max()) < inputs[0]:
            raise ProgramError(f"Select takes columns {self.columns.tolist()} of {inputs[0]}")
        return len(self.columns)


@dataclass(frozen=True, eq=False, slots=True)
class Concatenate(Operator):
    """Concatenation of the columns of all inputs, in the widest of their types."""

    arity: ClassVar[int | None] = None

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return sum(inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Impute(Operator):
    """Fill missing values.

    Parameters
    ----------
    values : float64 array of shape (width,)
        Fill value of each column.
    missing : float
        Mark of a missing value: NaN, or a number.
    """

    values: NDArray[np.float64]
    missing: float

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], len(self.values))


@dataclass(frozen=True, eq=False, slots=True)
class Finite(Operator):
    """Row validation: a row with NaN or an infinity is bad. The values pass unchanged.

    Parameters
    ----------
    dtype : str
        Type in which the library checks: ``"float64"``, ``"float32"``, or ``"as given"`` for the table's type. In
        float32, 1e39 is infinite.
    nan : bool
        Whether NaN may pass.
    who : str
        Model that the message names.
    infinite : bool
        Whether infinities may pass. Default false. Not together with `nan`.
    """

    dtype: str
    nan: bool
    who: str
    infinite: bool = False

    def __post_init__(self) -> None:
        check_choice("Finite", "dtype", self.dtype, ("as given", "float32", "float64"))
        if self.nan and self.infinite:
            raise ProgramError("infinite must be false where NaN may pass, got true.")

    @property
    def reason(self) -> str:
        """Description of a bad row, after "row 3 has"."""
        if self.infinite:
            return f"NaN, which {self.who} does not take"
        refused = "an infinity" if self.nan else "NaN or an infinity"
        return f"{refused}{' in float32' if self.dtype == 'float32' else ''}, which {self.who} does not take"
