"""How a library reads the table that it is given."""

from __future__ import annotations

from dataclasses import dataclass

from ._operator import Operator

__all__ = ["NarrowIntegers"]


@dataclass(frozen=True, eq=False, slots=True)
class NarrowIntegers(Operator):
    """Passes a table on to a model that reads the whole numbers of an array as float32, and floats as they are.

    A table of numbers no longer tells the ones from the others: who reads an array for the program refuses whole
    numbers that float32 does not have.

    Parameters
    ----------
    who : str
        The library, for the message.
    """

    who: str
