"""Identity operators that state how a library reads its table."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.compiling._operator import Operator, check_choice

__all__ = ["READING_MARKS", "NarrowIntegers", "ReadAs"]


@dataclass(frozen=True, eq=False, slots=True)
class NarrowIntegers(Operator):
    """Identity before a model that reads whole numbers of an array as float32, and floats as they are.

    A table no longer tells whole numbers from floats, so readers of arrays refuse whole numbers that float32 lacks.
    """

    who: str


@dataclass(frozen=True, eq=False, slots=True)
class ReadAs(Operator):
    """Identity before a model that reads columns by another rule than conversion to floats.

    Parameters
    ----------
    who : str
        Model that the message names.
    rule : {"values", "dtypes"}
        ``"values"``: values are compared as they are, so ``None`` is not NaN, and the text ``"1"`` is no number.
        ``"dtypes"``: columns of a DataFrame must have a dtype of numbers.
    """

    who: str
    rule: str

    def __post_init__(self) -> None:
        check_choice("ReadAs", "rule", self.rule, ("values", "dtypes"))


READING_MARKS = (NarrowIntegers, ReadAs)
"""Classes of these operators, which programs that run leave out."""
