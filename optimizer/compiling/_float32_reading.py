"""Mark of models that read whole numbers as float32."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.compiling._operator import Operator

__all__ = ["NarrowIntegers"]


@dataclass(frozen=True, eq=False, slots=True)
class NarrowIntegers(Operator):
    """Identity before a model that reads whole numbers of an array as float32, and floats as they are.

    A table no longer tells whole numbers from floats, so readers of arrays refuse whole numbers that float32 lacks.
    """

    who: str
