"""What all operators have in common: arrays, widths, a document."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ._errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["OPERATORS", "Operator", "check_choice", "width_of"]

OPERATORS: dict[str, type[Operator]] = {}
"""Every operator by its name, as documents have it."""


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """A function from tables of numbers to one table, row by row. Its fields are numbers, texts and numpy arrays.

    A subclass is registered under its own name, and says which widths it takes.
    """

    arity: ClassVar[int | None] = 1
    """Inputs that it takes; ``None`` for any number from one."""
    host: ClassVar[bool] = False
    """Whether the host runs it on columns of the input, before the tensor program."""

    def __init_subclass__(cls) -> None:
        """Register the operator. With slots, dataclass makes the class twice: the second one counts."""
        OPERATORS[cls.__name__] = cls

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result.

        Parameters
        ----------
        inputs : sequence of int
            Columns of each input.

        Raises
        ------
        ProgramError
            The operator does not take inputs of these widths.
        """
        return inputs[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the arrays among the fields, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def numbers(self) -> dict[str, Any]:
        """Give the fields that are no arrays, by name, as JSON takes them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}

    def digest(self) -> bytes:
        """Give a fingerprint: equal for operators that have the same class, numbers and arrays, bit by bit."""
        # The repr of a number tells -0.0 from 0.0, and has all its digits.
        seen = hashlib.sha256(f"{type(self).__name__} {self.numbers()!r}".encode())
        for name, array in self.arrays().items():
            seen.update(f"{name} {array.dtype.str} {array.shape}".encode())
            seen.update(np.ascontiguousarray(array).tobytes())
        return seen.digest()

    @classmethod
    def build(cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Operator:
        """Build an operator from what :meth:`numbers` and :meth:`arrays` gave.

        Raises
        ------
        ProgramError
            A field is missing or there is one too many, or a value is not allowed.
        """
        given, known = {*numbers, *arrays}, {field.name for field in fields(cls)}
        if given != known:
            raise ProgramError(f"{cls.__name__} has the fields {sorted(known)}, and the document has {sorted(given)}")
        return cls(**numbers, **arrays)

    def explain(self) -> str:
        """Describe the operator in a few words."""
        said = [f"{name}={value!r}" for name, value in self.numbers().items()]
        said += [f"{name} {value.shape}" for name, value in self.arrays().items()]
        return f"{type(self).__name__}({', '.join(said)})"


def check_choice(operator: str, field: str, value: str, allowed: Sequence[str]) -> None:
    """Check a field that takes one of a few texts.

    Raises
    ------
    ProgramError
        It has another one.
    """
    if value not in allowed:
        raise ProgramError(f"{operator}: {field}={value!r} is none of {', '.join(allowed)}")


def width_of(operator: Operator, given: int, expected: int) -> int:
    """Check the columns of an input.

    Raises
    ------
    ProgramError
        They are not as many as expected.
    """
    if given != expected:
        raise ProgramError(f"{operator.explain()} takes {expected} columns, not {given}")
    return given
