"""Operators that choose, join and fill columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ._errors import ProgramError
from ._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Concatenate", "Finite", "Impute", "Select"]


@dataclass(frozen=True, eq=False, slots=True)
class Select(Operator):
    """Some columns, in a given order. A gather: a product with zeros and ones makes NaN of 0 times NaN.

    Parameters
    ----------
    columns : int64 array of shape (width,)
    """

    columns: NDArray[np.int64]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if len(self.columns) and not 0 <= int(self.columns.min()) <= int(self.columns.max()) < inputs[0]:
            raise ProgramError(f"Select takes columns {self.columns.tolist()} of {inputs[0]}")
        return len(self.columns)


@dataclass(frozen=True, eq=False, slots=True)
class Concatenate(Operator):
    """The columns of all inputs, one after the other, in the widest of their types."""

    arity: ClassVar[int | None] = None

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return sum(inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Impute(Operator):
    """Fill what is missing.

    Parameters
    ----------
    values : float64 array of shape (width,)
        Per column, what takes the place.
    missing : float
        The mark of a missing value: NaN, or a number.
    """

    values: NDArray[np.float64]
    missing: float

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], len(self.values))


@dataclass(frozen=True, eq=False, slots=True)
class Finite(Operator):
    """Hold rows to what a library takes: a row with NaN or an infinity is bad. The values pass unchanged.

    Parameters
    ----------
    dtype : str
        ``"float64"``, ``"float32"`` or ``"as given"``: the type in which the library looks. As float32, 1e39 is
        infinite.
    nan : bool
        Whether NaN may pass.
    who : str
        The model that the message names.
    infinite : bool
        Whether infinities may pass. Default false; not together with `nan`.
    """

    dtype: str
    nan: bool
    who: str
    infinite: bool = False

    def __post_init__(self) -> None:
        check_choice("Finite", "dtype", self.dtype, ("as given", "float32", "float64"))
        if self.nan and self.infinite:
            raise ProgramError("Finite: NaN and infinities may pass, so there is nothing to hold")

    @property
    def reason(self) -> str:
        """What a bad row has, after "row 3 has"."""
        if self.infinite:
            return f"NaN, which {self.who} does not take"
        held = "an infinity" if self.nan else "NaN or an infinity"
        return f"{held}{' in float32' if self.dtype == 'float32' else ''}, which {self.who} does not take"
